//! Buffer for h2's output.
//!
//! h2 flushes after each DATA frame. Sending immediately would cost one send per response, and over TLS one
//! record. Flushes are therefore deferred until the connection's turn ends ([`WriteBuffer::poll_flush`]), so
//! that the responses of all streams in a turn are sent together.

use std::cell::{Cell, RefCell};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use phalanx::Call;
use phalanx::net::{Bytes, IoTimeout, Payload};

use crate::http2::monitor::Monitor;
use crate::socket::buffers;
use crate::socket::transport::Transport;
use crate::stages::Stages;

/// Bytes gathered while the previous write is in progress; above this, h2 has to wait.
const MAX_BUFFERED_BYTES: usize = 64 * 1024;

/// Output buffer of a connection.
pub(super) struct WriteBuffer {
    transport: Rc<Transport>,
    stages: Stages,
    timeout: IoTimeout,
    /// Whether flushes by h2 are deferred.
    defers_flushes: Cell<bool>,
    state: RefCell<State>,
    monitor: Rc<Monitor>,
}

#[derive(Default)]
struct State {
    /// Bytes of the next write.
    out: Vec<u8>,
    writing: Option<Call<io::Result<Vec<u8>>>>,
    finishing: Option<Call<()>>,
}

impl WriteBuffer {
    /// Creates a buffer; `timeout` applies to each write.
    pub(super) fn new(
        transport: Rc<Transport>,
        stages: Stages,
        timeout: IoTimeout,
        monitor: Rc<Monitor>,
    ) -> Self {
        let (defers_flushes, state) = (Cell::new(false), RefCell::default());
        Self { transport, stages, timeout, defers_flushes, state, monitor }
    }

    /// Defers flushes: the caller now calls [`poll_flush`](Self::poll_flush) after each turn.
    pub(super) fn defer_flushes(&self) {
        self.defers_flushes.set(true);
    }

    /// Appends as much of `pieces` as fits.
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

    /// A flush requested by h2, which may be deferred.
    pub(super) fn poll_deferred_flush(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.defers_flushes.get() { Poll::Ready(Ok(())) } else { self.poll_flush(context) }
    }

    /// Sends the gathered bytes.
    pub(super) fn poll_flush(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let state = &mut *self.state.borrow_mut();
        while state.writing.is_some() || !state.out.is_empty() {
            ready!(self.poll_send(state, context))?;
        }
        Poll::Ready(Ok(()))
    }

    /// Sends the gathered bytes and closes the sending side.
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

    /// Starts sending the gathered bytes once the previous write has completed.
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

    /// Terminates pending writes, which would keep the connection open.
    pub(super) fn end(&self) {
        let state = self.state.borrow();
        if let Some(call) = &state.writing {
            call.cancel();
        }
        if let Some(call) = &state.finishing {
            call.cancel();
        }
    }
}
