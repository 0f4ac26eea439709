//! One connection of HTTP/2: streams are accepted until the client leaves, is idle for too long, does
//! harm, or the program drains.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use h2::Reason;
use h2::server::{Builder, Connection};
use phalanx::net::{Bytes, IoTimeout};
use phalanx::overload::Admission;
use phalanx::shutdown::draining;
use phalanx::{sleep, timeout};

use crate::connection::guest::Guest;
use crate::connection::transport::Transport;
use crate::http2::flood::ALLOWED;
use crate::http2::monitor::Monitor;
use crate::http2::outlet::Outlet;
use crate::http2::pipe::Pipe;
use crate::http2::stream::{Streams, accept};
use crate::site::Live;
use crate::stages::Stages;

/// Requests that one client may have under way.
const STREAMS: u32 = 128;
/// What of a stream's answer may lie in h2's buffer while its client makes room.
const BUFFERED: usize = 128 * 1024;
/// Bodies are not wanted, so there is little room for them.
const WINDOW: u32 = 64 * 1024;
/// A client that was told that this is the end has so long to agree.
const LEAVE: Duration = Duration::from_secs(1);

/// Goes on with a connection by HTTP/2, as an operation of its own. `early` was received already.
pub(crate) fn dispatch(
    transport: Rc<Transport>,
    stages: Stages,
    live: Live,
    entry: Option<Admission>,
    guest: Guest,
    early: Vec<u8>,
) {
    let serve = move |_| serve(transport, stages, live, entry, guest, early);
    // Refused at a bound of operations: the connection closes.
    let _ = stages.http2.dispatch(serve);
}

/// Serves until the connection is over.
async fn serve(
    transport: Rc<Transport>,
    stages: Stages,
    live: Live,
    entry: Option<Admission>,
    guest: Guest,
    early: Vec<u8>,
) {
    let site = live.newest();
    let timeouts = site.timeouts;
    let sealed = transport.is_sealed();
    let pipe = Pipe::new(transport, stages, IoTimeout::after(timeouts.send), early);
    let (monitor, outlet) = (pipe.monitor(), pipe.outlet());
    let handshake = Builder::new()
        .max_concurrent_streams(STREAMS)
        // The monitor's bound is the one that is documented; h2's own would be 20 at a time.
        .max_pending_accept_reset_streams(ALLOWED as usize + 1)
        .max_header_list_size(site.limits.head as u32)
        .max_send_buffer_size(BUFFERED)
        .initial_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .handshake::<_, Bytes>(pipe);
    let Ok(Ok(connection)) = timeout(timeouts.request, handshake).await else { return };
    outlet.gather();
    let streams = Streams::new(stages, live, site, entry, guest, STREAMS as usize, sealed);
    drive(connection, &monitor, &outlet, streams, timeouts.idle).await;
}

async fn drive(
    mut connection: Connection<Pipe, Bytes>,
    monitor: &Monitor,
    outlet: &Outlet,
    mut streams: Streams,
    timeout: Duration,
) {
    let mut draining = pin!(draining());
    let mut idle = pin!(sleep(timeout));
    let mut leaving = false;
    poll_fn(|context| {
        loop {
            if monitor.take_flooded() {
                connection.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
            }
            if !leaving && draining.as_mut().poll(context).is_ready() {
                leaving = true;
                idle.reset(LEAVE);
                connection.graceful_shutdown();
            }
            match connection.poll_accept(context) {
                Poll::Ready(Some(Ok((_, mut respond))))
                    if monitor.is_malformed(respond.stream_id().as_u32()) =>
                {
                    respond.send_reset(Reason::PROTOCOL_ERROR);
                }
                Poll::Ready(Some(Ok((request, respond)))) => accept(&mut streams, request, respond),
                // What h2 had to say to an error of the client's has been sent.
                Poll::Ready(None | Some(Err(_))) => return Poll::Ready(()),
                Poll::Pending if monitor.is_flooded() => (),
                // The client is gone.
                Poll::Pending if matches!(outlet.poll_flush(context), Poll::Ready(Err(_))) => {
                    return Poll::Ready(());
                }
                Poll::Pending if connection.has_streams() => {
                    idle.reset(if leaving { LEAVE } else { timeout });
                    return Poll::Pending;
                }
                Poll::Pending => {
                    if idle.as_mut().poll(context).is_pending() {
                        return Poll::Pending;
                    }
                    if leaving {
                        return Poll::Ready(());
                    }
                    leaving = true;
                    idle.reset(LEAVE);
                    connection.graceful_shutdown();
                }
            }
        }
    })
    .await;
}
