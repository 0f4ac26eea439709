//! Relaying in both directions after a change of protocol, for example of a WebSocket.

use std::cell::Cell;
use std::io;
use std::pin::pin;
use std::time::Duration;

use phalanx::net::IoTimeout;
use phalanx::select;
use phalanx::task::Either;
use phalanx::time::now;
use phalanx_tls::Wire;

use crate::socket::network::is_time_limit;

/// One end of a tunnel, with the bytes that were received from it.
pub(super) struct TunnelEnd<'a> {
    pub(super) wire: &'a Wire,
    pub(super) received: Vec<u8>,
}

/// Passes bytes in both directions until both ends have closed, one of them fails, nothing has arrived from either for
/// the `idle` time, or the program shuts down. Returns the number of bytes sent to the client.
pub(super) async fn tunnel(client: TunnelEnd<'_>, server: TunnelEnd<'_>, idle: Duration) -> u64 {
    let (active, sent) = (Cell::new(now()), Cell::new(0));
    let ignored = Cell::new(0);
    let mut up = pin!(pump(client.received, client.wire, server.wire, idle, &active, &ignored));
    let mut down = pin!(pump(server.received, server.wire, client.wire, idle, &active, &sent));
    match select(up.as_mut(), down.as_mut()).await {
        Either::Left(Ok(())) => drop(down.await),
        Either::Right(Ok(())) => drop(up.await),
        // One direction is broken, so the whole tunnel ends.
        Either::Left(Err(_)) | Either::Right(Err(_)) => (),
    }
    sent.get()
}

/// Relays bytes in one direction until the end of the stream, and then relays the end.
async fn pump(
    mut bytes: Vec<u8>,
    from: &Wire,
    to: &Wire,
    idle: Duration,
    active: &Cell<Duration>,
    sent: &Cell<u64>,
) -> io::Result<()> {
    loop {
        if !bytes.is_empty() {
            let length = bytes.len() as u64;
            bytes = to.write(bytes, IoTimeout::after(idle)).await?;
            sent.set(sent.get() + length);
        }
        bytes.clear();
        let limit = (active.get() + idle).saturating_sub(now());
        match from.read(&mut bytes, IoTimeout::after(limit).until_shutdown()).await {
            Ok(0) => {
                to.finish(IoTimeout::after(idle)).await;
                return Ok(());
            }
            Ok(_) => active.set(now()),
            // The other direction may have been active during this time.
            Err(error) if is_time_limit(&error) && active.get() + idle > now() => {}
            Err(error) => return Err(error),
        }
    }
}
