//! The sending side of a request's stream: bytes of frames that wait for the client's window.

use std::cell::{RefCell, RefMut};
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use phalanx_http2::Flood;
use phalanx_http3::{Code, encoder};
use phalanx_quic::{SendStream, StreamError};

/// The counts of a connection's costly frames.
pub(super) type SharedFlood = Rc<RefCell<Flood>>;

/// The sending side of a stream.
pub(super) struct Outgoing {
    stream: SendStream,
    /// Heads, and starts of frames.
    queue: Vec<u8>,
    /// Whether the stream ends after the queue.
    ends: bool,
    /// The stream was reset.
    is_reset: bool,
    /// The code with which the client is asked to stop sending, if the rest of its request is not needed.
    stop_code: Code,
    flood: SharedFlood,
}

impl Outgoing {
    pub(super) fn new(stream: SendStream, flood: SharedFlood) -> Self {
        let (ends, is_reset, stop_code) = (false, false, Code::REQUEST_REJECTED);
        Self { stream, queue: Vec::new(), ends, is_reset, stop_code, flood }
    }

    /// Sets whether the request may have had an effect. If not, dropping it rejects the request; otherwise, it asks the
    /// client not to send the rest of an answered request (RFC 9114 §4.1). The code of an earlier reset is kept.
    pub(super) fn set_begun(&mut self, has_begun: bool) {
        if self.is_reset {
            return;
        }
        self.stop_code = if has_begun { Code::NO_ERROR } else { Code::REQUEST_REJECTED };
    }

    /// The code with which the client is asked to stop sending. After a reset it is the code of the reset, so that both
    /// directions end alike (RFC 9114 §4.1.1).
    pub(super) fn stop_code(&self) -> Code {
        self.stop_code
    }

    /// The counts of the connection's costly frames.
    pub(super) fn flood(&self) -> RefMut<'_, Flood> {
        self.flood.borrow_mut()
    }

    /// Queues the head of a response, or of an interim one.
    pub(super) fn head(&mut self, block: &[u8]) {
        encoder::head_of(&mut self.queue, block);
        self.flood().answered();
    }

    /// Queues the trailer section of a response.
    pub(super) fn trailers(&mut self, block: &[u8]) {
        encoder::head_of(&mut self.queue, block);
    }

    /// Queues the start of `length` bytes of content.
    pub(super) fn begin_content(&mut self, length: u64) {
        encoder::content(&mut self.queue, length);
    }

    /// Sends the queue, as far as possible without waiting.
    pub(super) fn flush(&mut self) {
        let mut context = Context::from_waker(std::task::Waker::noop());
        // An error is reported again by the next send.
        let _ = self.poll_flush(&mut context);
    }

    /// Sends the queue, and ends the stream if it ends there.
    pub(super) fn poll_flush(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), StreamError>> {
        let mut sent = 0;
        while sent < self.queue.len() {
            match self.stream.poll_write(context, &self.queue[sent..]) {
                Poll::Ready(Ok(more)) => sent += more,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {
                    self.queue.drain(..sent);
                    return Poll::Pending;
                }
            }
        }
        self.queue.clear();
        if std::mem::take(&mut self.ends) {
            return Poll::Ready(self.stream.finish());
        }
        Poll::Ready(Ok(()))
    }

    /// Sends content after the queue. Returns the number of bytes sent, at least one.
    pub(super) fn poll_content(
        &mut self,
        context: &mut Context<'_>,
        content: &[u8],
    ) -> Poll<Result<usize, StreamError>> {
        ready!(self.poll_flush(context))?;
        let sent = ready!(self.stream.poll_write(context, content))?;
        self.flood().sent(sent);
        Poll::Ready(Ok(sent))
    }

    /// Ends the stream after the queue. Returns whether the queue was sent.
    pub(super) fn finish(&mut self) -> bool {
        (self.ends, self.stop_code) = (true, Code::NO_ERROR);
        self.flush();
        !self.ends
    }

    /// Ends the stream without a complete response. Only the first code counts.
    pub(super) fn reset(&mut self, code: Code) {
        if !std::mem::replace(&mut self.is_reset, true) {
            self.stop_code = code;
            self.flood().reset();
            self.stream.reset(code.into());
        }
    }

    /// Waits until the client has stopped reading, or the connection has ended.
    pub(super) fn poll_stopped(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.stream.poll_stopped(context)
    }

    /// Closes the connection.
    pub(super) fn close_connection(&self, code: Code) {
        self.stream.close_connection(code.into());
    }
}
