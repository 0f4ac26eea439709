//! A plain or encrypted byte stream, for servers that offer both.
//!
//! At most one operation is in progress per direction, so dispatch is a single `match`. State that only TLS
//! needs while waiting is boxed, so that plain connections do not reserve memory for it.

use std::io;
use std::net::Shutdown;

use phalanx::fs::File;
use phalanx::net::{FileTransfer, IoTimeout, Payload, SentFile, Stream};

use crate::stream::session::TlsStream;

/// A client's connection. Dropping it closes the socket.
pub enum Wire {
    /// A TCP stream.
    Plain(Stream),
    /// A TLS stream.
    Tls(Box<TlsStream>),
}

impl Wire {
    /// An accepted connection, which is encrypted if another processor has [offered](Self::offer_with) an encrypted
    /// one.
    pub fn accepted(stream: Stream) -> Self {
        match TlsStream::resume(stream) {
            Ok(stream) => Self::Tls(Box::new(stream)),
            Err(stream) => Self::Plain(stream),
        }
    }

    /// Waits for input and appends it to `buffer`. Returns the number of bytes; 0 at the end of the stream.
    ///
    /// # Errors
    /// Like [`Stream::read`].
    pub async fn read(&self, buffer: &mut Vec<u8>, timeout: IoTimeout) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(buffer, timeout).await,
            Self::Tls(stream) => Box::pin(stream.read(buffer, timeout)).await,
        }
    }

    /// Sends all of `payload`, and returns the memory of its head.
    ///
    /// # Errors
    /// Like [`Stream::write`].
    pub async fn write(
        &self,
        payload: impl Into<Payload>,
        timeout: IoTimeout,
    ) -> io::Result<Vec<u8>> {
        match self {
            Self::Plain(stream) => stream.write(payload, timeout).await,
            Self::Tls(stream) => Box::pin(stream.write(payload.into(), timeout)).await,
        }
    }

    /// Sends all of `head` and the part of a file that is in the page cache, given as offset and maximum length. Over
    /// TLS no file bytes are sent, because they must be encrypted first.
    ///
    /// # Errors
    /// Like [`Stream::send_file`].
    pub async fn write_file(
        &self,
        head: Vec<u8>,
        (file, at, length): (&File, u64, u64),
        transfer: FileTransfer,
        timeout: IoTimeout,
    ) -> io::Result<SentFile> {
        match self {
            Self::Plain(stream) => {
                stream.send_file(head, file, at, length, transfer, timeout).await
            }
            Self::Tls(_) => Ok(SentFile { head: self.write(head, timeout).await?, bytes: 0 }),
        }
    }

    /// Closes the sending side. It fails only if the connection has already ended, so errors are ignored.
    pub async fn finish(&self, timeout: IoTimeout) {
        match self {
            Self::Plain(stream) => drop(stream.shutdown(Shutdown::Write)),
            Self::Tls(stream) => drop(Box::pin(stream.finish(timeout)).await),
        }
    }

    /// [Offers](Stream::offer_with) the connection to the other processors, with a state for the accepting processor.
    /// Returns true if it has moved.
    #[must_use = "the operation of a connection that has moved must end"]
    pub fn offer_with<S: Send + 'static>(&self, state: impl FnOnce() -> S) -> bool {
        match self {
            Self::Plain(stream) => stream.offer_with(state),
            Self::Tls(stream) => stream.offer(|| Box::new(state())),
        }
    }

    /// Takes the state with which another processor has [offered](Self::offer_with) the connection, if it has this
    /// type.
    pub fn take_state<S: 'static>(&mut self) -> Option<S> {
        match self {
            Self::Plain(stream) => stream.take_state(),
            Self::Tls(stream) => stream.take_state(),
        }
    }

    /// Whether there is nothing to read ([`Stream::is_idle`]).
    pub fn is_idle(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_idle(),
            Self::Tls(stream) => stream.is_idle(),
        }
    }

    /// Whether this is a TLS stream, which must be closed with [`finish`](Self::finish) so that the client can detect
    /// truncation. For a plain socket, closing it is sufficient.
    pub fn is_tls(&self) -> bool {
        matches!(self, Self::Tls(_))
    }

    /// The TCP stream below.
    pub fn stream(&self) -> &Stream {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => stream.stream(),
        }
    }

    /// The common name of the client's certificate.
    pub fn client_name(&self) -> Option<String> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(stream) => stream.client_name(),
        }
    }
}

impl From<Stream> for Wire {
    fn from(stream: Stream) -> Self {
        Self::Plain(stream)
    }
}
