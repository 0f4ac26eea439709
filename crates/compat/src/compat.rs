//! The wrapper that has the traits of other crates.

use phalanx::net::{PollStream, Polled, Stream};

/// A stream with the I/O traits of the crates whose features are enabled. See the [crate's page](crate).
///
/// It stays on its processor: elsewhere, every function fails with [`OwnerError`](phalanx::net::OwnerError). A
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
            false => Err(phalanx::net::OwnerError::WrongProcessor.into()),
        }
    }
}

impl From<Stream> for Compat<Polled> {
    fn from(stream: Stream) -> Self {
        Self::new(Polled::new(stream))
    }
}

/// Implements the writing trait of a crate. The traits are equal except for the name of the function that ends the sending
/// direction, and functions that some have in addition.
#[cfg(any(feature = "futures", feature = "hyper", feature = "tokio"))]
macro_rules! impl_write {
    ($write:path, $close:ident $(, $($more:tt)*)?) => {
        impl<S: phalanx::net::PollStream + Unpin> $write for $crate::compat::Compat<S> {
            fn poll_write(
                self: std::pin::Pin<&mut Self>,
                context: &mut std::task::Context<'_>,
                bytes: &[u8],
            ) -> std::task::Poll<std::io::Result<usize>> {
                self.poll_write_vectored(context, &[std::io::IoSlice::new(bytes)])
            }

            fn poll_write_vectored(
                mut self: std::pin::Pin<&mut Self>,
                context: &mut std::task::Context<'_>,
                parts: &[std::io::IoSlice<'_>],
            ) -> std::task::Poll<std::io::Result<usize>> {
                self.here()?.poll_write(context, parts)
            }

            fn poll_flush(
                mut self: std::pin::Pin<&mut Self>,
                context: &mut std::task::Context<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                self.here()?.poll_flush(context)
            }

            fn $close(
                mut self: std::pin::Pin<&mut Self>,
                context: &mut std::task::Context<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                self.here()?.poll_shutdown(context)
            }

            $($($more)*)?
        }
    };
}
#[cfg(any(feature = "futures", feature = "hyper", feature = "tokio"))]
pub(crate) use impl_write;
