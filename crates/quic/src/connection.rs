//! One connection, as the operation that drives it sees it.

use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use phalanx::time::{Deadline, now};
use quinn_proto::{ConnectionStats, Dir, StreamEvent, StreamId};

use crate::config::ping_interval;
use crate::frames::ReceivedFrames;
use crate::state::{Shared, State};
use crate::stream::{ReceiveStream, SendStream};

/// Maximum number of datagrams that one call of `quinn-proto` produces and one system call sends.
const MAX_BATCH: usize = 32;

/// The first timer, which is set again once there is an earlier one.
const IDLE_TIMER: Duration = Duration::from_secs(3600);

/// A connection. One operation drives it: it takes all [events](Self::next_event), then calls
/// [`poll_drive`](Self::poll_drive), and repeats both when it is woken. If it is dropped, the connection ends
/// immediately, and the client notices only when it sends something.
pub struct Connection {
    shared: Rc<Shared>,
    timer: Deadline,
    /// Streams that the server has opened.
    opened: usize,
    /// Whether PINGs are sent to a silent client.
    is_kept_alive: bool,
    /// Counts at the previous [`received`](Self::received).
    last_stats: ConnectionStats,
}

/// An event on a connection.
pub enum Event {
    /// The handshake is complete.
    Connected,
    /// The client has opened a bidirectional stream. The first value is its number.
    Opened(u64, ReceiveStream, SendStream),
    /// The client has opened a unidirectional stream.
    PeerOpened(ReceiveStream),
    /// A unidirectional stream of the client has data or has ended, and no operation waits for it.
    PeerReadable(u64),
    /// The client has stopped reading a stream that the server has opened.
    OwnStopped,
}

/// Responses that a client has not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unacknowledged {
    /// Streams that have not ended, or whose end was not acknowledged.
    pub streams: usize,
    /// Upper bound of their bytes that were written and not acknowledged.
    pub bytes: u64,
}

/// The state of a connection after [`Connection::poll_drive`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driven {
    /// There are events.
    Events,
    /// The connection has ended, and its endpoint has forgotten it.
    Ended,
}

impl Connection {
    pub(crate) fn new(shared: Rc<Shared>) -> Self {
        let (timer, last_stats) = (Deadline::new(now() + IDLE_TIMER), ConnectionStats::default());
        Self { shared, timer, opened: 0, is_kept_alive: false, last_stats }
    }

    /// The client's address at the beginning of the connection.
    pub fn remote_address(&self) -> SocketAddr {
        self.shared.remote
    }

    /// The next event, if there is one.
    pub fn next_event(&self) -> Option<Event> {
        let state = &mut *self.shared.state.borrow_mut();
        self.shared.exchange(state);
        loop {
            if let Some(event) = self.next_stream(state) {
                return Some(event);
            }
            match state.quic.poll()? {
                quinn_proto::Event::Connected => {
                    state.end_handshake(&self.shared.core, true);
                    return Some(Event::Connected);
                }
                quinn_proto::Event::ConnectionLost { .. } => {
                    state.end_handshake(&self.shared.core, false);
                    state.mark_lost();
                }
                quinn_proto::Event::Stream(event) => match event {
                    StreamEvent::Readable { id } => {
                        if !state.wake_reader(id) && id.dir() == Dir::Uni {
                            return Some(Event::PeerReadable(id.into()));
                        }
                    }
                    StreamEvent::Stopped { id, .. } => {
                        state.wake_writer(id);
                        if id.dir() == Dir::Uni {
                            return Some(Event::OwnStopped);
                        }
                    }
                    StreamEvent::Writable { id } => state.wake_writer(id),
                    // Streams are accepted above.
                    StreamEvent::Opened { .. } => (),
                    StreamEvent::Finished { .. } | StreamEvent::Available { .. } => (),
                },
                _ => (),
            }
        }
    }

    /// Accepts a stream that the client has opened.
    fn next_stream(&self, state: &mut State) -> Option<Event> {
        if let Some(id) = state.quic.streams().accept(Dir::Uni) {
            return Some(Event::PeerOpened(ReceiveStream::new(self.shared.clone(), id)));
        }
        let id = state.quic.streams().accept(Dir::Bi)?;
        let receive = ReceiveStream::new(self.shared.clone(), id);
        Some(Event::Opened(id.index(), receive, SendStream::new(self.shared.clone(), id)))
    }

    /// Opens a unidirectional stream, if the client permits one.
    pub fn open(&mut self) -> Option<SendStream> {
        let id: StreamId = self.shared.state.borrow_mut().quic.streams().open(Dir::Uni)?;
        self.opened += 1;
        Some(SendStream::new(self.shared.clone(), id))
    }

    /// Whether the handshake is in progress.
    pub fn is_handshaking(&self) -> bool {
        self.shared.state.borrow().is_handshaking
    }

    /// Whether the connection is closed; nothing can be read or written.
    pub fn is_closed(&self) -> bool {
        self.shared.state.borrow().is_lost
    }

    /// Whether the client has closed the connection or all datagrams with the server's close were sent.
    pub fn has_sent_close(&self) -> bool {
        let state = self.shared.state.borrow();
        state.is_lost && state.send_queue.is_empty()
    }

    /// The responses on streams of the client that it has not acknowledged.
    pub fn unacknowledged(&self) -> Unacknowledged {
        let state = &mut *self.shared.state.borrow_mut();
        let streams = state.quic.streams().send_streams().saturating_sub(self.opened);
        if streams == 0 {
            state.written = 0;
        }
        let bytes = state.written.min(self.shared.core.limits.send_window.into());
        Unacknowledged { streams, bytes }
    }

    /// The frames received since the previous call.
    pub fn received(&mut self) -> ReceivedFrames {
        let now = self.shared.state.borrow().quic.stats();
        ReceivedFrames::since(&mut self.last_stats, now)
    }

    /// Sets whether PINGs are sent to a silent client from time to time, so that neither side drops the connection. If
    /// the client does not acknowledge it, the connection ends after its idle timeout nevertheless.
    pub fn keep_alive(&mut self, is_kept: bool) {
        self.is_kept_alive = is_kept;
    }

    /// Closes the connection with an error code of the application. The connection is driven until it has ended, so that
    /// the close frame reaches the client even if datagrams are lost.
    pub fn close(&self, code: u64) {
        self.shared.close(code);
    }

    /// Sends what is ready, and waits for events.
    pub fn poll_drive(&mut self, context: &mut Context<'_>) -> Poll<Driven> {
        let shared = self.shared.clone();
        shared.set_driver(context);
        let state = &mut *shared.state.borrow_mut();
        shared.exchange(state);
        if state.is_drained {
            return Poll::Ready(Driven::Ended);
        }
        self.transmit(state, context);
        let ping = self.is_kept_alive.then(|| state.last_received + ping_interval(shared.idle));
        let timeout = state.quic.poll_timeout();
        let Some(at) = timeout.into_iter().chain(ping).min() else { return Poll::Pending };
        let remaining = shared.core.clock.duration_until(at);
        if !remaining.is_zero() && self.timer.poll(now() + remaining, context).is_pending() {
            return Poll::Pending;
        }
        let now = shared.core.now();
        if ping.is_some_and(|ping| ping <= now) {
            state.last_received = now;
            state.quic.ping();
        }
        state.quic.handle_timeout(now);
        // There may also be more to send now.
        Poll::Ready(Driven::Events)
    }

    /// Sends what is ready, up to `MAX_SENDS` datagrams at a time. The operation is woken when datagrams were sent.
    fn transmit(&self, state: &mut State, context: &mut Context<'_>) {
        state.send_queue.poll(context);
        state.quic.set_send_window(self.shared.core.send_window());
        let now = self.shared.core.now();
        loop {
            let room = state.send_queue.room().min(MAX_BATCH);
            if room == 0 {
                return;
            }
            let mut bytes = Vec::new();
            let Some(transmit) = state.quic.poll_transmit(now, room, &mut bytes) else { return };
            bytes.truncate(transmit.size);
            state.send_queue.send(context, bytes, transmit.destination, transmit.segment_size);
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let state = &mut *self.shared.state.borrow_mut();
        if !state.is_drained {
            self.shared.core.handle(self.shared.handle, quinn_proto::EndpointEvent::drained());
            self.shared.end(state);
        }
    }
}
