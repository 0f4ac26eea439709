//! The state of one connection, shared by its operation, its streams and its endpoint.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use quinn_proto::{ConnectionEvent, ConnectionHandle, StreamId, VarInt};

use crate::core::Core;
use crate::send_queue::SendQueue;

/// A connection of an endpoint.
pub(crate) struct Shared {
    pub(crate) core: Rc<Core>,
    pub(crate) handle: ConnectionHandle,
    pub(crate) remote: SocketAddr,
    /// Time without a datagram after which the connection is dropped.
    pub(crate) idle: Duration,
    pub(crate) state: RefCell<State>,
    /// Wakes the operation that drives the connection.
    driver: Cell<Option<Waker>>,
}

pub(crate) struct State {
    pub(crate) quic: quinn_proto::Connection,
    /// The operations that wait for streams. Contains only streams for which one waits.
    pub(crate) waiting: HashMap<StreamId, StreamWakers>,
    pub(crate) send_queue: SendQueue,
    /// The last time of a datagram from the client, or of a PING to it.
    pub(crate) last_received: Instant,
    /// Bytes written since everything written was last acknowledged.
    pub(crate) written: u64,
    /// Whether the handshake is in progress.
    pub(crate) is_handshaking: bool,
    /// Whether the connection has ended, so that its streams cannot be used.
    pub(crate) is_lost: bool,
    /// Whether the endpoint has removed the connection.
    pub(crate) is_drained: bool,
}

/// The operations that wait for one stream.
#[derive(Default)]
pub(crate) struct StreamWakers {
    pub(crate) reader: Option<Waker>,
    pub(crate) writer: Option<Waker>,
}

impl Shared {
    pub(crate) fn new(
        core: Rc<Core>,
        handle: ConnectionHandle,
        (remote, idle): (SocketAddr, Duration),
        quic: quinn_proto::Connection,
    ) -> Self {
        let (send_queue, last_received, written) = (core.send_queue(), core.now(), 0);
        let (waiting, is_handshaking) = (HashMap::new(), true);
        let (is_lost, is_drained) = (false, false);
        let state = State {
            quic,
            waiting,
            send_queue,
            last_received,
            written,
            is_handshaking,
            is_lost,
            is_drained,
        };
        Self { core, handle, remote, idle, state: RefCell::new(state), driver: Cell::new(None) }
    }

    /// Processes a datagram for the connection.
    pub(crate) fn receive(&self, event: ConnectionEvent) {
        let mut state = self.state.borrow_mut();
        state.last_received = self.core.now();
        state.quic.handle_event(event);
        drop(state);
        self.wake();
    }

    /// Wakes the operation that drives the connection: there may be events, or something to send.
    pub(crate) fn wake(&self) {
        if let Some(driver) = self.driver.take() {
            driver.wake();
        }
    }

    /// Wakes this operation from now on.
    pub(crate) fn set_driver(&self, context: &Context<'_>) {
        self.driver.set(Some(context.waker().clone()));
    }

    /// Closes the connection with an error code of the application.
    pub(crate) fn close(&self, code: u64) {
        let now = self.core.now();
        let code = VarInt::from_u64(code).unwrap_or(VarInt::MAX);
        let mut state = self.state.borrow_mut();
        state.quic.close(now, code, bytes::Bytes::new());
        state.mark_lost();
        drop(state);
        self.wake();
    }

    /// Passes events from the connection to its endpoint, and back.
    pub(crate) fn exchange(&self, state: &mut State) {
        while !state.is_drained
            && let Some(event) = state.quic.poll_endpoint_events()
        {
            state.is_drained = event.is_drained();
            if let Some(answer) = self.core.handle(self.handle, event) {
                state.quic.handle_event(answer);
            }
        }
        if state.is_drained {
            self.end(state);
        }
    }

    /// Removes the connection from the endpoint, if it is still there.
    pub(crate) fn end(&self, state: &mut State) {
        state.is_drained = true;
        state.mark_lost();
        state.end_handshake(&self.core, false);
        self.core.remove(self.handle);
    }
}

impl State {
    /// Records that the connection has ended, and wakes operations that wait for streams.
    pub(crate) fn mark_lost(&mut self) {
        self.is_lost = true;
        for (_, waiting) in self.waiting.drain() {
            waiting.reader.into_iter().chain(waiting.writer).for_each(Waker::wake);
        }
    }

    /// Records that the handshake has ended: it is complete, or the connection has ended.
    pub(crate) fn end_handshake(&mut self, core: &Core, is_complete: bool) {
        if std::mem::take(&mut self.is_handshaking) {
            core.handshakes.set(core.handshakes.get() - 1);
            let metrics = &core.metrics;
            if is_complete { &metrics.handshakes } else { &metrics.handshakes_failed }.add(1);
        }
    }

    /// Wakes the operation that waits for reading a stream, if any.
    pub(crate) fn wake_reader(&mut self, id: StreamId) -> bool {
        let reader = self.waiting.get_mut(&id).and_then(|waiting| waiting.reader.take());
        let is_woken = reader.is_some();
        reader.into_iter().for_each(Waker::wake);
        self.forget_idle(id);
        is_woken
    }

    /// Wakes the operation that waits for writing a stream, if any.
    pub(crate) fn wake_writer(&mut self, id: StreamId) {
        let writer = self.waiting.get_mut(&id).and_then(|waiting| waiting.writer.take());
        writer.into_iter().for_each(Waker::wake);
        self.forget_idle(id);
    }

    /// Removes the entry of a stream for which no operation waits.
    pub(crate) fn forget_idle(&mut self, id: StreamId) {
        if self
            .waiting
            .get(&id)
            .is_some_and(|waiting| waiting.reader.is_none() && waiting.writer.is_none())
        {
            self.waiting.remove(&id);
        }
    }
}
