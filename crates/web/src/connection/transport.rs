//! What a connection's bytes go through: a socket as it is, or TLS over one.
//!
//! Everything above speaks to this and not to the socket. One thing is under way in each direction at
//! most, so the way through is a match and no more; what only TLS needs while it waits is boxed, for
//! connections without it are not to hold the room.

use std::io;
use std::net::Shutdown;

use phalanx::fs::File;
use phalanx::net::{IoTimeout, Payload, SentFile, Stream};
use phalanx_tls::TlsStream;

/// A client's connection, whatever its bytes are wrapped in. Dropping it closes it.
pub(crate) enum Transport {
    /// Bytes as they are.
    Plain(Stream),
    /// Bytes in sealed records.
    Tls(Box<TlsStream>),
}

impl Transport {
    /// Waits for bytes and appends them to `buffer`. Returns how many; zero is the end.
    ///
    /// # Errors
    /// As [`Stream::read`].
    pub(crate) async fn read(&self, buffer: &mut Vec<u8>, timeout: IoTimeout) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(buffer, timeout).await,
            Self::Tls(stream) => Box::pin(stream.read(buffer, timeout)).await,
        }
    }

    /// Sends all of `payload`, and gives its head's memory back.
    ///
    /// # Errors
    /// As [`Stream::write`].
    pub(crate) async fn write(&self, payload: Payload, timeout: IoTimeout) -> io::Result<Vec<u8>> {
        match self {
            Self::Plain(stream) => stream.write(payload, timeout).await,
            Self::Tls(stream) => Box::pin(stream.write(payload, timeout)).await,
        }
    }

    /// Sends all of `head`, and part of a file as far as it is in memory: from where on, and how much at
    /// most. Through TLS none of it, as its bytes do not leave as they are.
    ///
    /// # Errors
    /// As [`Stream::send_file`].
    pub(crate) async fn write_file(
        &self,
        head: Vec<u8>,
        (file, at, length): (&File, u64, u64),
        timeout: IoTimeout,
    ) -> io::Result<SentFile> {
        match self {
            Self::Plain(stream) => stream.send_file(head, file, at, length, timeout).await,
            Self::Tls(_) => {
                Ok(SentFile { head: self.write(head.into(), timeout).await?, bytes: 0 })
            }
        }
    }

    /// Says that nothing more will be sent. Fails only where the connection has ended, and then there
    /// is nobody to tell.
    pub(crate) async fn finish(&self, timeout: IoTimeout) {
        match self {
            Self::Plain(stream) => drop(stream.shutdown(Shutdown::Write)),
            Self::Tls(stream) => drop(Box::pin(stream.finish(timeout)).await),
        }
    }

    /// Whether this is TLS, whose end is to be said with [`finish`](Self::finish): only then is it known
    /// that nobody has cut it off. A socket says it by being closed.
    pub(crate) fn is_sealed(&self) -> bool {
        matches!(self, Self::Tls(_))
    }
}

impl From<Stream> for Transport {
    fn from(stream: Stream) -> Self {
        Self::Plain(stream)
    }
}
