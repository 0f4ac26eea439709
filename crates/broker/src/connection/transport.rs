//! What a connection's bytes go through: a socket as it is, TLS over one, or a WebSocket over either.
//!
//! One reads and another one writes, each one thing at a time. What only TLS and WebSocket need while they wait is
//! boxed, for connections without them are not to hold the room.

use std::io;
use std::net::{IpAddr, Shutdown};
use std::rc::Rc;
use std::sync::Arc;

use phalanx::net::{Bytes, IoTimeout, Payload, Stream};
use phalanx_tls::TlsStream;

use crate::connection::outbox::Outbox;
use crate::connection::websocket::WebSocket;

/// A client's connection, whatever its bytes are wrapped in. Dropping it closes it.
pub(crate) enum Transport {
    Plain(Stream),
    Tls(Box<TlsStream>),
    WebSocket(Box<WebSocket>),
}

impl Transport {
    /// Waits for bytes and appends them to `buffer`. Returns how many; zero is the end.
    pub(crate) async fn read(&self, buffer: &mut Vec<u8>, timeout: IoTimeout) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(buffer, timeout).await,
            Self::Tls(stream) => Box::pin(stream.read(buffer, timeout)).await,
            Self::WebSocket(socket) => Box::pin(socket.read(buffer, timeout)).await,
        }
    }

    /// Sends all of `bytes`, and gives their memory back.
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

    /// Says that nothing more will be sent. There may be nobody to tell.
    pub(crate) async fn finish(&self, timeout: IoTimeout) {
        match self {
            Self::Plain(stream) => drop(stream.shutdown(Shutdown::Write)),
            Self::Tls(stream) => drop(Box::pin(stream.finish(timeout)).await),
            Self::WebSocket(socket) => Box::pin(socket.finish(timeout)).await,
        }
    }

    /// Whether its end is to be said with [`finish`](Self::finish), since only then it is known that nobody has
    /// cut it off. A socket says it by being closed.
    pub(crate) fn is_wrapped(&self) -> bool {
        !matches!(self, Self::Plain(_))
    }

    /// Whether this is TLS.
    pub(crate) fn is_sealed(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(_) => true,
            Self::WebSocket(socket) => socket.below().is_sealed(),
        }
    }

    /// Whether it has something to say by itself: answers to what a WebSocket's client has asked.
    #[inline]
    pub(crate) fn has_answers(&self) -> bool {
        matches!(self, Self::WebSocket(socket) if socket.has_answers())
    }

    /// From here on somebody writes whom `outbox` wakes.
    pub(crate) fn has_sender(&self, outbox: &Rc<Outbox>) {
        if let Self::WebSocket(socket) = self {
            socket.has_sender(outbox.clone());
        }
    }

    /// Ends it in both directions: whoever reads from it finds its end.
    pub(crate) fn shut(&self) {
        let _ = self.stream().shutdown(Shutdown::Both);
    }

    /// The client's address; none where it has gone already.
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

    /// The user that a certificate names.
    pub(crate) fn client_name(&self) -> Option<Arc<str>> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(stream) => stream.client_name().map(Into::into),
            Self::WebSocket(socket) => socket.below().client_name(),
        }
    }
}
