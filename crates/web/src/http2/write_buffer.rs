//! What h2 has written, on its way to the transport.
//!
//! h2 flushes behind each frame that has content. Taken at its word that would be a send, and with TLS a
//! record, for each answer; what the streams of one turn have answered leaves together instead. So a
//! flush is a promise here, kept when the connection's turn is over ([`WriteBuffer::poll_flush`]).

use std::cell::{Cell, RefCell};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use phalanx::Call;
use phalanx::net::{Bytes, IoTimeout, Payload};

use crate::connection::buffers;
use crate::connection::transport::Transport;
use crate::http2::monitor::Monitor;
use crate::stages::Stages;

/// So much is gathered while the piece before it is sent; then h2 waits.
const MAX_BUFFERED_BYTES: usize = 64 * 1024;

/// A connection's way out.
pub(super) struct WriteBuffer {
    transport: Rc<Transport>,
    stages: Stages,
    timeout: IoTimeout,
    /// Whether flushes of h2's own are put off.
    defers_flushes: Cell<bool>,
    state: RefCell<State>,
    monitor: Rc<Monitor>,
}

#[derive(Default)]
struct State {
    /// To send next.
    out: Vec<u8>,
    writing: Option<Call<io::Result<Vec<u8>>>>,
    finishing: Option<Call<()>>,
}

impl WriteBuffer {
    /// `timeout` is for each piece.
    pub(super) fn new(
        transport: Rc<Transport>,
        stages: Stages,
        timeout: IoTimeout,
        monitor: Rc<Monitor>,
    ) -> Self {
        let (defers_flushes, state) = (Cell::new(false), RefCell::default());
        Self { transport, stages, timeout, defers_flushes, state, monitor }
    }

    /// From now on somebody calls [`poll_flush`](Self::poll_flush) after each turn.
    pub(super) fn defer_flushes(&self) {
        self.defers_flushes.set(true);
    }

    /// Takes of `pieces` what there is room for.
    pub(super) fn poll_write(
        &self,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let state = &mut *self.state.borrow_mut();
        if state.out.len() >= MAX_BUFFERED_BYTES {
            ready!(self.poll_send(state, context))?;
        }
        if state.out.capacity() == 0 {
            state.out = buffers::get();
        }
        let before = state.out.len();
        for piece in pieces {
            let room = MAX_BUFFERED_BYTES.saturating_sub(state.out.len());
            let piece = &piece[..piece.len().min(room)];
            self.monitor.sent(piece);
            state.out.extend_from_slice(piece);
        }
        Poll::Ready(Ok(state.out.len() - before))
    }

    /// h2 has no more for now.
    pub(super) fn poll_deferred_flush(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.defers_flushes.get() { Poll::Ready(Ok(())) } else { self.poll_flush(context) }
    }

    /// Sends what is gathered.
    pub(super) fn poll_flush(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let state = &mut *self.state.borrow_mut();
        while state.writing.is_some() || !state.out.is_empty() {
            ready!(self.poll_send(state, context))?;
        }
        Poll::Ready(Ok(()))
    }

    /// Sends what is gathered, and says that nothing more comes.
    pub(super) fn poll_finish(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_flush(context))?;
        let state = &mut *self.state.borrow_mut();
        let call = state.finishing.get_or_insert_with(|| {
            let (transport, timeout) = (self.transport.clone(), self.timeout);
            self.stages.network.call(move |_| async move { transport.finish(timeout).await })
        });
        ready!(Pin::new(call).poll(context)).map_err(io::Error::other)?;
        Poll::Ready(Ok(()))
    }

    /// Begins to send what is gathered, once what was sent before it has gone.
    fn poll_send(&self, state: &mut State, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(call) = &mut state.writing {
            let sent = ready!(Pin::new(call).poll(context));
            state.writing = None;
            buffers::recycle(sent.unwrap_or_else(|error| Err(io::Error::other(error)))?);
        }
        if !state.out.is_empty() {
            let (transport, timeout) = (self.transport.clone(), self.timeout);
            let payload = Payload { head: std::mem::take(&mut state.out), body: Bytes::new() };
            let send = move |_| async move { transport.write(payload, timeout).await };
            state.writing = Some(self.stages.network.call(send));
        }
        Poll::Ready(Ok(()))
    }

    /// Ends what is under way: it would keep the connection open.
    pub(super) fn end(&self) {
        let state = self.state.borrow();
        if let Some(call) = &state.writing {
            call.end();
        }
        if let Some(call) = &state.finishing {
            call.end();
        }
    }
}
