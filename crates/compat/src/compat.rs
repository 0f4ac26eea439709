//! The wrapper that has the traits of other crates.

use phalanx::net::{PollStream, Polled, Stream};

/// A stream with the I/O traits of the crates whose features are enabled. See the [crate's page](crate).
///
/// It stays on its processor: elsewhere, every function fails with [`Elsewhere`](phalanx::net::Elsewhere). A
/// [`portable`](crate::portable()) stream works on any thread.
#[derive(Debug)]
pub struct Compat<S>(S);

impl<S: PollStream> Compat<S> {
    /// Wraps a stream.
    pub fn new(stream: S) -> Self {
        Self(stream)
    }

    /// The wrapped stream.
    pub fn into_inner(self) -> S {
        self.0
    }

    /// The wrapped stream.
    pub fn get_ref(&self) -> &S {
        &self.0
    }

    /// The wrapped stream.
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.0
    }

    /// The stream, on its own processor. On other threads the driver would not be there to report the error.
    #[cfg(any(feature = "futures", feature = "hyper", feature = "tokio"))]
    pub(crate) fn here(&mut self) -> std::io::Result<&mut S> {
        match self.0.is_home() {
            true => Ok(&mut self.0),
            false => Err(phalanx::net::Elsewhere::AnotherProcessor.into()),
        }
    }
}

impl From<Stream> for Compat<Polled> {
    fn from(stream: Stream) -> Self {
        Self::new(Polled::new(stream))
    }
}
