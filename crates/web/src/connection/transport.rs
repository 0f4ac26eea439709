//! What a connection's bytes go through: a socket as it is, or TLS over one.
//!
//! Everything above speaks to this and not to the socket. One thing is under way in each direction at
//! most, so the way through is a match and no more.

use std::io;
use std::net::Shutdown;

use phalanx::net::Stream;
use phalanx::{Patience, Payload};

/// A client's connection, whatever its bytes are wrapped in. Dropping it closes it.
pub(crate) enum Transport {
    /// Bytes as they are.
    Plain(Stream),
}

impl Transport {
    /// Waits for bytes and appends them to `buffer`. Returns how many; zero is the end.
    ///
    /// # Errors
    /// As [`Stream::read`].
    pub(crate) async fn read(&self, buffer: &mut Vec<u8>, patience: Patience) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(buffer, patience).await,
        }
    }

    /// Sends all of `payload`, and gives its head's memory back.
    ///
    /// # Errors
    /// As [`Stream::write`].
    pub(crate) async fn write(&self, payload: Payload, patience: Patience) -> io::Result<Vec<u8>> {
        match self {
            Self::Plain(stream) => stream.write(payload, patience).await,
        }
    }

    /// Says that nothing more will be sent.
    pub(crate) fn finish(&self) {
        match self {
            // Refused only where the connection has ended, and then there is nobody to tell.
            Self::Plain(stream) => drop(stream.shutdown(Shutdown::Write)),
        }
    }
}

impl From<Stream> for Transport {
    fn from(stream: Stream) -> Self {
        Self::Plain(stream)
    }
}
