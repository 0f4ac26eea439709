//! Reading and writing streams.

use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use quinn_proto::{FinishError, ReadError, StreamId, VarInt, WriteError};

use crate::state::Shared;

/// Reason why a stream cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamError {
    /// The client has reset the stream or stopped reading it, with this error code of the application.
    Peer(u64),
    /// The connection has ended, or the stream was already finished, reset or stopped.
    Closed,
}

impl std::fmt::Display for StreamError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Peer(code) => {
                write!(f, "the client has ended the QUIC stream with the code {code:#x}")
            }
            Self::Closed => f.write_str("the QUIC stream or its connection has ended"),
        }
    }
}

impl std::error::Error for StreamError {}

impl From<StreamError> for io::Error {
    fn from(error: StreamError) -> Self {
        Self::new(io::ErrorKind::BrokenPipe, error)
    }
}

/// The receiving side of a stream. If it is dropped before its end, the client is asked to stop sending, with the code of
/// [`set_stop_code`](Self::set_stop_code).
pub struct ReceiveStream {
    shared: Rc<Shared>,
    id: StreamId,
    is_ended: bool,
    stop_code: u64,
}

impl ReceiveStream {
    pub(crate) fn new(shared: Rc<Shared>, id: StreamId) -> Self {
        Self { shared, id, is_ended: false, stop_code: 0 }
    }

    /// The number of the stream, as in [`Event::PeerReadable`](crate::Event::PeerReadable).
    pub fn id(&self) -> u64 {
        self.id.into()
    }

    /// Sets the error code for a stream that is dropped before its end.
    pub fn set_stop_code(&mut self, code: u64) {
        self.stop_code = code;
    }

    /// Reads at most `max` bytes; `None` at the end of the stream. Pending if nothing has arrived.
    ///
    /// # Errors
    /// If the client has reset the stream, or the connection has ended.
    pub fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        max: usize,
    ) -> Poll<Result<Option<Bytes>, StreamError>> {
        let read = self.try_read(max);
        match read {
            Some(read) => Poll::Ready(read),
            None => {
                let state = &mut *self.shared.state.borrow_mut();
                let waiting = state.waiting.entry(self.id).or_default();
                waiting.reader = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Like [`poll_read`](Self::poll_read), without waiting: `None` if nothing has arrived.
    pub fn try_read(&mut self, max: usize) -> Option<Result<Option<Bytes>, StreamError>> {
        let state = &mut *self.shared.state.borrow_mut();
        if self.is_ended {
            return Some(Ok(None));
        }
        if state.is_lost {
            return Some(Err(StreamError::Closed));
        }
        let mut stream = state.quic.recv_stream(self.id);
        let Ok(mut chunks) = stream.read(true) else { return Some(Err(StreamError::Closed)) };
        let read = match chunks.next(max) {
            Ok(Some(chunk)) => Some(Ok(Some(chunk.bytes))),
            Ok(None) => Some(Ok(None)),
            Err(ReadError::Blocked) => None,
            Err(ReadError::Reset(code)) => Some(Err(StreamError::Peer(code.into()))),
        };
        self.is_ended = matches!(read, Some(Ok(None) | Err(_)));
        if chunks.finalize().should_transmit() {
            self.shared.wake();
        }
        read
    }
}

impl ReceiveStream {
    /// Asks the client to stop sending, and discards received data. Reading then returns the end of the stream.
    pub fn stop(&mut self) {
        let state = &mut *self.shared.state.borrow_mut();
        if let Some(waiting) = state.waiting.get_mut(&self.id) {
            waiting.reader = None;
        }
        state.forget_idle(self.id);
        if !std::mem::replace(&mut self.is_ended, true) && !state.is_lost {
            let code = VarInt::from_u64(self.stop_code).unwrap_or(VarInt::MAX);
            // The client may have reset it.
            let _ = state.quic.recv_stream(self.id).stop(code);
            self.shared.wake();
        }
    }
}

impl Drop for ReceiveStream {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The sending side of a stream. If it is dropped before [`finish`](Self::finish), it is reset.
pub struct SendStream {
    shared: Rc<Shared>,
    id: StreamId,
    is_ended: bool,
}

impl SendStream {
    pub(crate) fn new(shared: Rc<Shared>, id: StreamId) -> Self {
        Self { shared, id, is_ended: false }
    }

    /// Writes bytes as far as the windows permit. Returns how many, at least one unless `bytes` is empty. Pending if none
    /// can be written.
    ///
    /// # Errors
    /// If the client has stopped reading, or the connection has ended.
    pub fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize, StreamError>> {
        let state = &mut *self.shared.state.borrow_mut();
        if state.is_lost {
            return Poll::Ready(Err(StreamError::Closed));
        }
        let written = match state.quic.send_stream(self.id).write(bytes) {
            Ok(written) => {
                state.written += written as u64;
                Ok(written)
            }
            Err(WriteError::Blocked) => {
                let waiting = state.waiting.entry(self.id).or_default();
                waiting.writer = Some(context.waker().clone());
                return Poll::Pending;
            }
            Err(WriteError::Stopped(code)) => Err(StreamError::Peer(code.into())),
            Err(WriteError::ClosedStream) => Err(StreamError::Closed),
        };
        self.shared.wake();
        Poll::Ready(written)
    }

    /// Ends the stream after all written bytes.
    ///
    /// # Errors
    /// Like [`poll_write`](Self::poll_write).
    pub fn finish(&mut self) -> Result<(), StreamError> {
        let state = &mut *self.shared.state.borrow_mut();
        if state.is_lost {
            return Err(StreamError::Closed);
        }
        self.shared.wake();
        match state.quic.send_stream(self.id).finish() {
            Ok(()) => {
                self.is_ended = true;
                Ok(())
            }
            Err(FinishError::Stopped(code)) => Err(StreamError::Peer(code.into())),
            Err(FinishError::ClosedStream) => Err(StreamError::Closed),
        }
    }

    /// Ends the stream with an error code of the application; written bytes may be lost.
    pub fn reset(&mut self, code: u64) {
        let state = &mut *self.shared.state.borrow_mut();
        if !std::mem::replace(&mut self.is_ended, true) && !state.is_lost {
            let mut stream = state.quic.send_stream(self.id);
            let own = VarInt::from_u64(code).unwrap_or(VarInt::MAX);
            // If the client has stopped reading, the reset repeats the client's code (RFC 9000 §3.5).
            let code = stream.stopped().ok().flatten().unwrap_or(own);
            let _ = stream.reset(code);
            self.shared.wake();
        }
    }

    /// Waits until the client stops reading, or the connection ends.
    pub fn poll_stopped(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let state = &mut *self.shared.state.borrow_mut();
        if state.is_lost || !matches!(state.quic.send_stream(self.id).stopped(), Ok(None)) {
            return Poll::Ready(());
        }
        let waiting = state.waiting.entry(self.id).or_default();
        waiting.writer = Some(context.waker().clone());
        Poll::Pending
    }

    /// Closes the connection with an error code of the application.
    pub fn close_connection(&self, code: u64) {
        self.shared.close(code);
    }
}

impl Drop for SendStream {
    fn drop(&mut self) {
        self.reset(0);
        let state = &mut *self.shared.state.borrow_mut();
        if let Some(waiting) = state.waiting.get_mut(&self.id) {
            waiting.writer = None;
        }
        state.forget_idle(self.id);
    }
}
