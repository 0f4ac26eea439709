//! The client of a request that is at a server: whether it still waits.

use std::future::poll_fn;
use std::rc::Rc;
use std::time::Duration;

use phalanx::sleep;
use phalanx_tls::Wire;

use crate::proxy::body::StreamContent;

/// Time between two checks of an HTTP/1.1 connection. Most responses arrive before the first.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The client of a request.
pub(super) enum Client {
    /// On an HTTP/1.1 connection.
    Connection(Rc<Wire>),
    /// On a stream of HTTP/2 or HTTP/3.
    Stream(Rc<dyn StreamContent>),
}

impl Client {
    /// Waits until the client has disconnected or reset its stream. An HTTP/1.1 client that closes its sending direction
    /// counts as disconnected, as the two cannot be distinguished.
    pub(super) async fn gone(self) {
        match self {
            Self::Connection(wire) => {
                sleep(CHECK_INTERVAL).await;
                while !wire.stream().is_closed_by_peer() {
                    sleep(CHECK_INTERVAL).await;
                }
            }
            Self::Stream(content) => poll_fn(|context| content.poll_closed(context)).await,
        }
    }
}
