//! An HTTP/2 connection: accepts streams until the client leaves, is idle for too long or misbehaves, or the
//! program shuts down.

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

use crate::http2::flood::MAX_PER_WINDOW;
use crate::http2::h2_io::H2Io;
use crate::http2::monitor::Monitor;
use crate::http2::stream::{Streams, accept};
use crate::http2::write_buffer::WriteBuffer;
use crate::site::CurrentSite;
use crate::socket::peer::Peer;
use crate::socket::transport::Transport;
use crate::stages::Stages;

/// Concurrent requests per connection.
const MAX_CONCURRENT_STREAMS: u32 = 128;
/// Bytes of a stream's response in h2's buffer while the client's window is closed.
const MAX_SEND_BUFFER: usize = 128 * 1024;
/// Flow-control window for request bodies, which the server discards, in bytes.
const INITIAL_WINDOW: u32 = 64 * 1024;
/// Time for the client to close the connection after GOAWAY.
const GOAWAY_TIMEOUT: Duration = Duration::from_secs(1);

/// Serves a connection with HTTP/2, as an operation of its own. `early` contains bytes already received.
pub(crate) fn dispatch(
    transport: Rc<Transport>,
    stages: Stages,
    current: CurrentSite,
    entry: Option<Admission>,
    peer: Peer,
    early: Vec<u8>,
) {
    let serve = move |_| serve(transport, stages, current, entry, peer, early);
    // If the operation limit is reached, the connection closes.
    let _ = stages.http2.dispatch(serve);
}

/// Serves until the connection ends.
async fn serve(
    transport: Rc<Transport>,
    stages: Stages,
    current: CurrentSite,
    entry: Option<Admission>,
    peer: Peer,
    early: Vec<u8>,
) {
    let site = current.load();
    let timeouts = site.timeouts;
    let is_tls = transport.is_tls();
    let pipe = H2Io::new(transport, stages, IoTimeout::after(timeouts.send), early);
    let (monitor, write_buffer) = (pipe.monitor(), pipe.write_buffer());
    let handshake = Builder::new()
        .max_concurrent_streams(MAX_CONCURRENT_STREAMS)
        // The monitor enforces the documented limit; h2's default limit is 20 at a time.
        .max_pending_accept_reset_streams(MAX_PER_WINDOW as usize + 1)
        .max_header_list_size(site.limits.head as u32)
        .max_send_buffer_size(MAX_SEND_BUFFER)
        .initial_window_size(INITIAL_WINDOW)
        .initial_connection_window_size(INITIAL_WINDOW)
        .handshake::<_, Bytes>(pipe);
    let Ok(Ok(connection)) = timeout(timeouts.request, handshake).await else { return };
    write_buffer.defer_flushes();
    let streams =
        Streams::new(stages, current, site, entry, peer, MAX_CONCURRENT_STREAMS as usize, is_tls);
    drive(connection, &monitor, &write_buffer, streams, timeouts.idle).await;
}

async fn drive(
    mut connection: Connection<H2Io, Bytes>,
    monitor: &Monitor,
    write_buffer: &WriteBuffer,
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
                idle.reset(GOAWAY_TIMEOUT);
                connection.graceful_shutdown();
            }
            match connection.poll_accept(context) {
                Poll::Ready(Some(Ok((_, mut respond))))
                    if monitor.is_malformed(respond.stream_id().as_u32()) =>
                {
                    respond.send_reset(Reason::PROTOCOL_ERROR);
                }
                Poll::Ready(Some(Ok((request, respond)))) => accept(&mut streams, request, respond),
                // h2 has sent its response to a connection error of the client.
                Poll::Ready(None | Some(Err(_))) => return Poll::Ready(()),
                Poll::Pending if monitor.is_flooded() => (),
                // The client has disconnected.
                Poll::Pending
                    if matches!(write_buffer.poll_flush(context), Poll::Ready(Err(_))) =>
                {
                    return Poll::Ready(());
                }
                Poll::Pending if connection.has_streams() => {
                    idle.reset(if leaving { GOAWAY_TIMEOUT } else { timeout });
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
                    idle.reset(GOAWAY_TIMEOUT);
                    connection.graceful_shutdown();
                }
            }
        }
    })
    .await;
}
