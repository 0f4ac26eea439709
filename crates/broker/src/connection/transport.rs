//! The transport of a connection: TCP, TLS, or WebSocket over either.
//!
//! One operation reads and one writes. The state that TLS and WebSocket need while waiting is boxed, so that
//! plain connections do not reserve memory for it.

use std::io;
use std::net::{IpAddr, Shutdown};
use std::rc::Rc;
use std::sync::Arc;

use phalanx::net::{Bytes, IoTimeout, Payload, Stream};
use phalanx_tls::TlsStream;

use crate::connection::outbox::Outbox;
use crate::connection::websocket::WebSocket;

/// A client's connection. Dropping it closes the socket.
pub(crate) enum Transport {
    Plain(Stream),
    Tls(Box<TlsStream>),
    WebSocket(Box<WebSocket>),
}

impl Transport {
    /// Waits for input and appends it to `buffer`. Returns the number of bytes; 0 at the end of the stream.
    pub(crate) async fn read(&self, buffer: &mut Vec<u8>, timeout: IoTimeout) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(buffer, timeout).await,
            Self::Tls(stream) => Box::pin(stream.read(buffer, timeout)).await,
            Self::WebSocket(socket) => Box::pin(socket.read(buffer, timeout)).await,
        }
    }

    /// Writes all of `bytes`, and returns the buffer for reuse.
    pub(crate) async fn write(&self, bytes: Vec<u8>, timeout: IoTimeout) -> io::Result<Vec<u8>> {
        match self {
            Self::Plain(stream) => stream.write(bytes, timeout).await,
            Self::Tls(stream) => {
                let payload = Payload { head: bytes, body: Bytes::new() };
                Box::pin(stream.write(payload, timeout)).await
            }
            Self::WebSocket(socket) => Box::pin(socket.write(bytes, timeout)).await,
        }
    }

    /// Ends the output stream. The client may already be gone.
    pub(crate) async fn finish(&self, timeout: IoTimeout) {
        match self {
            Self::Plain(stream) => drop(stream.shutdown(Shutdown::Write)),
            Self::Tls(stream) => drop(Box::pin(stream.finish(timeout)).await),
            Self::WebSocket(socket) => Box::pin(socket.finish(timeout)).await,
        }
    }

    /// Whether the end of the stream has to be sent with [`finish`](Self::finish), which protects against
    /// truncation. TCP connections are simply closed.
    pub(crate) fn is_wrapped(&self) -> bool {
        !matches!(self, Self::Plain(_))
    }

    /// Whether the connection uses TLS.
    pub(crate) fn is_sealed(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(_) => true,
            Self::WebSocket(socket) => socket.below().is_sealed(),
        }
    }

    /// Whether the transport itself has output, such as WebSocket pongs.
    #[inline]
    pub(crate) fn has_answers(&self) -> bool {
        matches!(self, Self::WebSocket(socket) if socket.has_answers())
    }

    /// Registers the outbox whose sender writes the transport's own output.
    pub(crate) fn has_sender(&self, outbox: &Rc<Outbox>) {
        if let Self::WebSocket(socket) = self {
            socket.has_sender(outbox.clone());
        }
    }

    /// Shuts down both directions: a pending read ends.
    pub(crate) fn shut(&self) {
        let _ = self.stream().shutdown(Shutdown::Both);
    }

    /// The client's address; `None` if it has disconnected.
    pub(crate) fn peer_ip(&self) -> Option<IpAddr> {
        self.stream().peer_addr().ok().map(|address| address.ip())
    }

    fn stream(&self) -> &Stream {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => stream.stream(),
            Self::WebSocket(socket) => socket.below().stream(),
        }
    }

    /// The user name in the client's certificate.
    pub(crate) fn client_name(&self) -> Option<Arc<str>> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(stream) => stream.client_name().map(Into::into),
            Self::WebSocket(socket) => socket.below().client_name(),
        }
    }
}
