//! Clients that connect to another node.

use std::io::{self, Read};
use std::iter::empty;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use phalanx_mqtt::QoS;

use crate::error::Error;
use crate::experiments::broker::client::Client;
use crate::experiments::state::client::{Client as Lasting, Lasts, WINDOW};

/// Time after which an earlier connection counts as not ended.
const LIMIT: Duration = Duration::from_secs(1);

/// The messages in the queue of a session that moves, and their bytes.
const QUEUED: (usize, usize) = (100, 1024);

/// Connects clients to the first node and then to the second one. Returns the times from the second CONNECT until the first
/// connection has ended, of at least [`LIMIT`] if the first node did not end it.
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

/// Connects a client with messages in its queue to the second node, and to the first one again. Returns the times until the
/// node has the session and accepts the client.
pub(super) fn moves(
    (first, second): (SocketAddr, SocketAddr),
    count: usize,
) -> Result<Vec<Duration>, Error> {
    let (name, topic, (queued, bytes)) = ("moving", "moving", QUEUED);
    // Ends the session of an earlier round.
    drop(Lasting::connect(first, name, Lasts::Connection)?);
    Lasting::connect(first, name, Lasts::Hour)?.subscribe(topic)?;
    let mut publisher = Lasting::connect(first, "filler", Lasts::Connection)?;
    publisher.publish((queued, WINDOW), |_| topic.to_owned(), (bytes, false))?;
    let mut times = Vec::new();
    for at in [second, first].into_iter().cycle().take(count) {
        let begun = Instant::now();
        let client = Lasting::connect(at, name, Lasts::Hour)?;
        times.push(begun.elapsed());
        if !client.is_resumed {
            return Err(io::Error::other("a session did not move").into());
        }
    }
    Ok(times)
}
