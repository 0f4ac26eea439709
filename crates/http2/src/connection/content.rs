//! DATA frames (RFC 9113 §6.1): the content of requests, which an operation takes or discards.
//!
//! Content is buffered until then. A stream's window bounds the buffered content of its request: it is reopened when
//! the content is taken, so a slow recipient slows the client down. Once content is taken, the window is enlarged,
//! because it limits the rate of an upload to one window per round trip. The connection's window is unlimited, so a
//! request whose content is not taken does not stop the others.

use std::task::{Context, Poll};

use super::{Connection, Request};
use crate::error::{Closed, Code, Error};
use crate::frame::{self, Frame, flag, kind};
use crate::streams::{Absent, wake};

/// Window of a stream whose content is taken, in bytes.
const TAKEN_WINDOW: i32 = 256 * 1024;
/// Window of a connection with content: the largest one (RFC 9113 §6.9.1).
const CONNECTION_WINDOW: i32 = i32::MAX;

/// State of a request's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// All content was received.
    Complete,
    /// The content exceeds [`Limits::body`](crate::Limits::body); the rest is not received.
    TooLarge,
}

impl Connection {
    /// Waits for the end of a request's content, and discards it.
    ///
    /// # Errors
    /// If the stream has ended: the client has reset it, or the request is malformed.
    pub fn poll_body(&mut self, context: &mut Context<'_>, id: u32) -> Poll<Result<Body, Closed>> {
        let limit = self.limits.body;
        let Some(stream) = self.streams.get(id) else { return Poll::Ready(Err(Closed)) };
        if !stream.discards {
            self.discard(id);
        }
        let Some(stream) = self.streams.get(id) else { return Poll::Ready(Err(Closed)) };
        if stream.received > limit {
            return Poll::Ready(Ok(Body::TooLarge));
        }
        if !stream.is_receiving {
            return Poll::Ready(Ok(Body::Complete));
        }
        stream.waker = Some(context.waker().clone());
        Poll::Pending
    }

    /// Discards the content of a request from now on.
    pub fn discard(&mut self, id: u32) {
        if let Some(stream) = self.streams.get(id) {
            stream.discards = true;
            self.take(id);
        }
    }

    /// Waits for content of a request without taking any, so that its window stays closed. Returns false if the request
    /// ends without content.
    ///
    /// # Errors
    /// Like [`poll_content`](Self::poll_content).
    pub fn poll_arrival(
        &mut self,
        context: &mut Context<'_>,
        id: u32,
    ) -> Poll<Result<bool, Closed>> {
        let Some(stream) = self.streams.get(id) else { return Poll::Ready(Err(Closed)) };
        if stream.is_receiving && stream.content.is_empty() {
            stream.waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(Ok(!stream.content.is_empty()))
    }

    /// Waits for content of a request and appends it to `out`, at most 256 KiB. Returns whether more may follow.
    /// Appends nothing only at the end.
    ///
    /// # Errors
    /// If the stream has ended: the client has reset it, or the request is malformed.
    pub fn poll_content(
        &mut self,
        context: &mut Context<'_>,
        id: u32,
        out: &mut Vec<u8>,
    ) -> Poll<Result<bool, Closed>> {
        let Some(stream) = self.streams.get(id) else { return Poll::Ready(Err(Closed)) };
        let is_receiving = stream.is_receiving;
        if is_receiving && stream.content.is_empty() {
            stream.waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        stream.receive_window.enlarge(TAKEN_WINDOW);
        let mut content = self.take(id);
        self.flood.forwarded(content.len());
        out.append(&mut content);
        Poll::Ready(Ok(is_receiving))
    }

    /// Takes the buffered content of a request, and reopens its window.
    fn take(&mut self, id: u32) -> Vec<u8> {
        let Some(stream) = self.streams.get(id) else { return Vec::new() };
        let content = std::mem::take(&mut stream.content);
        if stream.is_receiving
            && let Some(by) = stream.receive_window.open()
        {
            frame::write(&mut self.out, kind::WINDOW_UPDATE, 0, id, &by.to_be_bytes());
            self.wake_sender();
        }
        content
    }

    pub(super) fn data(&mut self, frame: &Frame, payload: &[u8]) -> Result<Option<Request>, Error> {
        if frame.stream == 0 {
            return Err(Error::Connection(Code::PROTOCOL_ERROR));
        }
        let content = frame::without_padding(frame, payload)
            .ok_or(Error::Connection(Code::PROTOCOL_ERROR))?;
        // Padding counts, and so does content of closed streams (RFC 9113 §6.9).
        self.receive_window
            .received(payload.len())
            .ok_or(Error::Connection(Code::FLOW_CONTROL_ERROR))?;
        if self.streams.get(frame.stream).is_some() {
            self.receive_window.enlarge(CONNECTION_WINDOW);
        }
        if let Some(by) = self.receive_window.open() {
            frame::write(&mut self.out, kind::WINDOW_UPDATE, 0, 0, &by.to_be_bytes());
        }
        let id = frame.stream;
        let Some(stream) = self.streams.get(id) else {
            return match self.streams.absent(id) {
                Absent::Idle | Absent::Skipped => Err(Error::Connection(Code::PROTOCOL_ERROR)),
                Absent::Reset => Ok(None),
                Absent::Closed | Absent::Forgotten => Err(Error::Stream(id, Code::STREAM_CLOSED)),
            };
        };
        if !stream.is_receiving {
            return Err(Error::Stream(id, Code::STREAM_CLOSED));
        }
        stream
            .receive_window
            .received(payload.len())
            .ok_or(Error::Stream(id, Code::FLOW_CONTROL_ERROR))?;
        stream.received += content.len() as u64;
        if stream.expected.is_some_and(|expected| stream.received > expected) {
            return Err(Error::Stream(id, Code::PROTOCOL_ERROR));
        }
        if !stream.discards {
            stream.content.extend_from_slice(content);
        }
        // Whether an operation has to take the content first. Padding alone gives it nothing to take, so the window is
        // reopened at once.
        let is_for_operation = match stream.discards {
            true => stream.received > self.limits.body,
            false => !stream.content.is_empty(),
        };
        if frame.has(flag::END_STREAM) {
            self.end_content(id)?;
        } else if is_for_operation {
            // The window is not reopened until an operation takes the content.
            wake(stream.waker.take());
        } else if let Some(by) = stream.receive_window.open() {
            frame::write(&mut self.out, kind::WINDOW_UPDATE, 0, id, &by.to_be_bytes());
        }
        Ok(None)
    }

    /// Ends the content of an open stream. Its length must be the declared one (RFC 9113 §8.1.1).
    pub(super) fn end_content(&mut self, id: u32) -> Result<(), Error> {
        let Some(stream) = self.streams.get(id) else { return Ok(()) };
        if stream.expected.is_some_and(|expected| stream.received != expected) {
            return Err(Error::Stream(id, Code::PROTOCOL_ERROR));
        }
        stream.is_receiving = false;
        wake(stream.waker.take());
        Ok(())
    }
}
