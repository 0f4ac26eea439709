//! The transport of a connection: TCP or TLS, WebSocket over either, the link of a bridge, or the lane of a cluster.
//!
//! One operation reads and one writes. The state that TLS and WebSocket need while waiting is boxed, so that
//! plain connections do not reserve memory for it.

pub(crate) mod outbox;
pub(crate) mod websocket;

use std::io;
use std::net::Shutdown;
use std::rc::Rc;
use std::sync::Arc;

use phalanx::net::{IoTimeout, Stream};
use phalanx::time::now;
use phalanx_tls::Wire;

use crate::lane::Lane;
use crate::limits::peer::LINGER_TIME;
use crate::link::Link;
use crate::transport::outbox::Outbox;
use crate::transport::websocket::WebSocket;

/// A client's connection. Dropping it closes the socket.
pub(crate) enum Transport {
    /// TCP or TLS.
    Wire(Wire),
    /// WebSocket over TCP or TLS.
    WebSocket(Box<WebSocket>),
    /// The connection of a bridge to a remote broker.
    Link(Box<Link>),
    /// The connection to another node of the cluster.
    Lane(Rc<Lane>),
}

impl Transport {
    /// Waits for input and appends it to `buffer`. Returns the number of bytes; 0 at the end of the stream.
    pub(crate) async fn read(&self, buffer: &mut Vec<u8>, timeout: IoTimeout) -> io::Result<usize> {
        match self {
            Self::Wire(wire) => wire.read(buffer, timeout).await,
            Self::WebSocket(socket) => Box::pin(socket.read(buffer, timeout)).await,
            // A link has its own keep-alive.
            Self::Link(link) => Box::pin(link.read(buffer)).await,
            Self::Lane(lane) => Box::pin(lane.read(buffer)).await,
        }
    }

    /// Writes all of `bytes`, and returns the buffer for reuse.
    pub(crate) async fn write(&self, bytes: Vec<u8>, timeout: IoTimeout) -> io::Result<Vec<u8>> {
        match self {
            Self::Wire(wire) => wire.write(bytes, timeout).await,
            Self::WebSocket(socket) => Box::pin(socket.write(bytes, timeout)).await,
            Self::Link(link) => Box::pin(link.write(bytes, timeout)).await,
            Self::Lane(lane) => Box::pin(lane.write(bytes)).await,
        }
    }

    /// Whether the peer has shut down its sending direction, or the connection is broken.
    pub(crate) fn is_closed_by_peer(&self) -> bool {
        self.wire().is_some_and(|wire| wire.stream().is_closed_by_peer())
    }

    /// Ends the output stream. The client may already be gone.
    pub(crate) async fn finish(&self, timeout: IoTimeout) {
        match self {
            Self::Wire(wire) => wire.finish(timeout).await,
            Self::WebSocket(socket) => Box::pin(socket.finish(timeout)).await,
            Self::Link(link) => Box::pin(link.wire().finish(timeout)).await,
            Self::Lane(lane) => lane.close("the session ended"),
        }
    }

    /// Sends the end of the stream and reads until the client closes, for up to [`LINGER_TIME`]. Closing a socket
    /// with unread input would reset the connection, and the client might lose the response.
    pub(crate) async fn linger(&self) {
        self.finish(IoTimeout::after(LINGER_TIME)).await;
        let (begun, mut rest) = (now(), Vec::new());
        loop {
            rest.clear();
            let left = LINGER_TIME.saturating_sub(now() - begun);
            match self.read(&mut rest, IoTimeout::after(left).until_shutdown()).await {
                Ok(1..) if !left.is_zero() => (),
                _ => return,
            }
        }
    }

    /// Whether the end of the stream has to be sent with [`finish`](Self::finish), which protects against
    /// truncation. TCP connections are simply closed.
    pub(crate) fn is_wrapped(&self) -> bool {
        self.plain().is_none()
    }

    /// Whether this is the connection to another node.
    pub(crate) fn is_lane(&self) -> bool {
        matches!(self, Self::Lane(_))
    }

    /// Whether the peer is a broker that retransmits unacknowledged messages but drops refused ones.
    pub(crate) fn sends_again(&self) -> bool {
        match self {
            Self::Lane(_) => true,
            Self::Link(link) => link.is_resumed(),
            Self::Wire(_) | Self::WebSocket(_) => false,
        }
    }

    /// Whether the connection uses TLS.
    pub(crate) fn is_tls(&self) -> bool {
        self.wire().is_some_and(Wire::is_tls)
    }

    /// Whether the transport itself has output, such as WebSocket pongs.
    #[inline]
    pub(crate) fn has_own_packets(&self) -> bool {
        match self {
            Self::Wire(_) => false,
            Self::WebSocket(socket) => socket.has_own_packets(),
            Self::Link(link) => link.has_own_packets(),
            Self::Lane(lane) => lane.has_own_packets(),
        }
    }

    /// Whether another processor should serve the connection, which uses sessions of the processor `near`. WebSocket
    /// connections and those of other brokers do not move.
    pub(crate) fn should_move(&self, near: Option<usize>) -> bool {
        matches!(self, Self::Wire(wire) if wire.stream().should_move(near))
    }

    /// Offers the connection to the other processors with `state`. True if it has moved.
    pub(crate) fn offer_with<S: Send + 'static>(&self, state: impl FnOnce() -> S) -> bool {
        matches!(self, Self::Wire(wire) if wire.offer_with(state))
    }

    /// Registers the outbox whose sender writes the transport's own output.
    pub(crate) fn set_outbox(&self, outbox: &Rc<Outbox>) {
        match self {
            Self::Wire(_) => (),
            Self::WebSocket(socket) => socket.set_outbox(outbox.clone()),
            Self::Link(link) => {
                let outbox = outbox.clone();
                link.set_wake(move || outbox.nudge());
            }
            Self::Lane(lane) => {
                let outbox = outbox.clone();
                lane.set_wake(move || outbox.nudge());
            }
        }
    }

    /// Shuts down both directions, which ends a pending read.
    pub(crate) fn shut(&self) {
        match self.wire() {
            Some(wire) => drop(wire.stream().shutdown(Shutdown::Both)),
            None => {
                if let Self::Lane(lane) = self {
                    lane.close("the session ended");
                }
            }
        }
    }

    /// Like [`shut`](Self::shut), but the kernel discards the bytes that the client has not acknowledged.
    pub(crate) fn reset(&self) {
        if let Some(wire) = self.wire() {
            // The connection may already have ended.
            let _ = wire.stream().reset_on_close();
        }
        self.shut();
    }

    /// The user name in the client's certificate.
    pub(crate) fn client_name(&self) -> Option<Arc<str>> {
        self.wire()?.client_name().map(Into::into)
    }

    /// The connection, if it is TCP only.
    pub(crate) fn plain(&self) -> Option<&Stream> {
        match self {
            Self::Wire(Wire::Plain(stream)) => Some(stream),
            _ => None,
        }
    }

    /// The underlying connection; `None` for a lane.
    fn wire(&self) -> Option<&Wire> {
        match self {
            Self::Wire(wire) => Some(wire),
            Self::WebSocket(socket) => Some(socket.wire()),
            Self::Link(link) => Some(link.wire()),
            Self::Lane(_) => None,
        }
    }
}
