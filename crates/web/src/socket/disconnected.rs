//! Whether the client of an HTTP/1.1 connection still waits for a response that takes long.

use std::time::Duration;

use phalanx::sleep;
use phalanx_tls::Wire;

/// Time between two checks. Most responses are ready before the first.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Waits until the client has disconnected. A client that closes its sending direction counts as disconnected, as the two
/// cannot be distinguished.
pub(crate) async fn disconnected(wire: &Wire) {
    sleep(CHECK_INTERVAL).await;
    while !wire.stream().is_closed_by_peer() {
        sleep(CHECK_INTERVAL).await;
    }
}
