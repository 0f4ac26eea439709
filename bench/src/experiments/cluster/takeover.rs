//! Takeover: the time from a CONNECT at one node until the earlier connection at another one has ended.

use std::io::{self, Read};
use std::iter::empty;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use phalanx_mqtt::QoS;

use crate::experiments::broker::client::Client;

/// Time after which an earlier connection counts as not ended.
const LIMIT: Duration = Duration::from_secs(1);

/// Connects clients to the first node and then to the second one. Returns their times, of at least [`LIMIT`] if the
/// first node did not disconnect the client.
pub(super) fn takeover(
    (first, second): (SocketAddr, SocketAddr),
    count: usize,
) -> io::Result<Vec<Duration>> {
    let mut times = Vec::new();
    for n in 0..count {
        let name = format!("roaming-{n}");
        let start = |at| Client::start(at, &name, empty(), QoS::AtMostOnce, false);
        let mut before = start(first)?;
        let begun = Instant::now();
        let after = start(second)?;
        before.stream.set_nonblocking(false)?;
        before.stream.set_read_timeout(Some(LIMIT))?;
        // DISCONNECT with the reason, and the end.
        match before.stream.read(&mut [0; 64]) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
            _ => times.push(begun.elapsed()),
        }
        after.leave()?;
    }
    Ok(times)
}
