//! The client of a forwarded request: whether it still waits.

use std::future::poll_fn;
use std::rc::Rc;

use phalanx_tls::Wire;

use crate::proxy::body::StreamContent;
use crate::socket::disconnected::disconnected;

/// The client of a request.
pub(super) enum Client {
    /// On an HTTP/1.1 connection.
    Connection(Rc<Wire>),
    /// On an HTTP/2 or HTTP/3 stream.
    Stream(Rc<dyn StreamContent>),
}

impl Client {
    /// Waits until the client has disconnected or reset its stream.
    pub(super) async fn gone(self) {
        match self {
            Self::Connection(wire) => disconnected(&wire).await,
            Self::Stream(content) => poll_fn(|context| content.poll_closed(context)).await,
        }
    }
}
