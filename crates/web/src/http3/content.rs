//! The content of a request, as it arrives from the client.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use phalanx::net::Bytes;
use phalanx_http::Status;
use phalanx_http2::encoder;
use phalanx_http2::{Body, Head};
use phalanx_http3::{Code, Error, Limits, Received, Receiver};
use phalanx_quic::ReceiveStream;

use crate::http3::outgoing::Outgoing;
use crate::proxy::{StreamClosed, StreamContent};

/// Bytes that one read takes from a stream.
const MAX_READ_BYTES: usize = 64 * 1024;
/// Content that one call appends, in bytes.
const MAX_PIECE_BYTES: usize = 64 * 1024;

/// The receiving side of a request's stream.
pub(super) struct Incoming {
    stream: ReceiveStream,
    receiver: Receiver,
    /// Received bytes that are not processed.
    input: Bytes,
    /// The first piece of the content, until it is taken.
    first: Vec<u8>,
    /// Whether the request is complete, or the rest is not read.
    is_done: bool,
    /// Content that was read and discarded, in bytes.
    discarded: u64,
    outgoing: Rc<RefCell<Outgoing>>,
}

impl Incoming {
    pub(super) fn new(
        stream: ReceiveStream,
        limits: Limits,
        outgoing: Rc<RefCell<Outgoing>>,
    ) -> Self {
        let (receiver, input) = (Receiver::new(limits), Bytes::new());
        let first = Vec::new();
        Self { stream, receiver, input, first, is_done: false, discarded: 0, outgoing }
    }

    /// Waits for the head. Returns it, and whether the request may have content.
    ///
    /// # Errors
    /// If the client has reset the stream, or its request is malformed.
    pub(super) fn poll_head(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<(Head, bool), StreamClosed>> {
        let head = loop {
            if let Some(head) = self.process(|received| match received {
                Received::Head(head) => Some(head),
                Received::Content(_) => None,
            })? {
                break head;
            }
            ready!(self.poll_input(context))?;
            // The stream ended before the head, which is an error.
        };
        // The end of the stream usually arrives with the head.
        while !self.is_done && self.input.is_empty() {
            match self.poll_input(context) {
                Poll::Ready(Ok(())) => (),
                Poll::Ready(Err(closed)) => return Poll::Ready(Err(closed)),
                Poll::Pending => break,
            }
        }
        Poll::Ready(Ok((head, !self.is_done)))
    }

    /// Processes input until `take` returns something; `None` if the input does not suffice.
    fn process<T>(
        &mut self,
        mut take: impl FnMut(Received<'_>) -> Option<T>,
    ) -> Result<Option<T>, StreamClosed> {
        let input = self.input.clone();
        let mut rest = &input[..];
        let taken = {
            let outgoing = self.outgoing.borrow();
            let mut flood = outgoing.flood();
            let taken = loop {
                match self.receiver.receive(&mut rest, &mut flood) {
                    Ok(None) => break Ok(None),
                    Ok(Some(received)) => {
                        if let Some(taken) = take(received) {
                            break Ok(Some(taken));
                        }
                    }
                    Err(error) => break Err(error),
                }
            };
            match flood.excess() {
                Some(_) => Err(Error::Connection(Code::EXCESSIVE_LOAD)),
                None => taken,
            }
        };
        self.input = input.slice(input.len() - rest.len()..);
        taken.map_err(|error| self.fail(error))
    }

    /// Waits for bytes, or the end of the stream.
    fn poll_input(&mut self, context: &mut Context<'_>) -> Poll<Result<(), StreamClosed>> {
        match ready!(self.stream.poll_read(context, MAX_READ_BYTES)) {
            Ok(Some(input)) => self.input = input,
            Ok(None) => match self.receiver.finish() {
                Ok(()) => self.is_done = true,
                Err(error) => return Poll::Ready(Err(self.fail(error))),
            },
            Err(_) => {
                self.outgoing.borrow_mut().reset(Code::REQUEST_CANCELLED);
                return Poll::Ready(Err(StreamClosed));
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Ends the stream or the connection.
    fn fail(&mut self, error: Error) -> StreamClosed {
        match error {
            Error::Connection(code) => self.outgoing.borrow().close_connection(code),
            Error::Stream(code) => self.outgoing.borrow_mut().reset(code),
        }
        StreamClosed
    }

    /// Waits for the end of the content, and discards it. Up to `limit` bytes are read.
    pub(super) fn poll_body(
        &mut self,
        context: &mut Context<'_>,
        limit: u64,
    ) -> Poll<Result<Body, StreamClosed>> {
        loop {
            let mut bytes = 0;
            self.process(|received| {
                if let Received::Content(content) = received {
                    bytes += content.len() as u64;
                }
                None::<()>
            })?;
            self.discarded += bytes;
            if self.discarded > limit {
                return Poll::Ready(Ok(Body::TooLarge));
            }
            if self.is_done {
                return Poll::Ready(Ok(Body::Complete));
            }
            ready!(self.poll_input(context))?;
        }
    }

    /// Waits for content, and keeps the first piece. Returns false at the end of a request without content.
    fn poll_arrival(&mut self, context: &mut Context<'_>) -> Poll<Result<bool, StreamClosed>> {
        let mut first = std::mem::take(&mut self.first);
        let polled = self.poll_content(context, &mut first);
        self.first = first;
        polled.map_ok(|_| !self.first.is_empty())
    }

    /// Waits for content and appends it to `out`. Returns whether more may follow.
    fn poll_content(
        &mut self,
        context: &mut Context<'_>,
        out: &mut Vec<u8>,
    ) -> Poll<Result<bool, StreamClosed>> {
        if !self.first.is_empty() {
            out.append(&mut self.first);
            return Poll::Ready(Ok(!self.is_done));
        }
        loop {
            self.process(|received| {
                if let Received::Content(content) = received {
                    out.extend_from_slice(content);
                }
                (out.len() >= MAX_PIECE_BYTES).then_some(())
            })?;
            if self.is_done || !out.is_empty() {
                self.outgoing.borrow().flood().forwarded(out.len());
                return Poll::Ready(Ok(!self.is_done));
            }
            ready!(self.poll_input(context))?;
        }
    }

    /// Discards the rest.
    fn stop(&mut self) {
        (self.is_done, self.input, self.first) = (true, Bytes::new(), Vec::new());
        self.stream.set_stop_code(self.outgoing.borrow().stop_code().into());
        self.stream.stop();
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The content of a request that is forwarded to another server.
pub(super) struct Content {
    pub(super) incoming: Rc<RefCell<Incoming>>,
    pub(super) outgoing: Rc<RefCell<Outgoing>>,
}

impl StreamContent for Content {
    fn poll_arrival(&self, context: &mut Context<'_>) -> Poll<Result<bool, StreamClosed>> {
        self.incoming.borrow_mut().poll_arrival(context)
    }

    fn poll_content(
        &self,
        context: &mut Context<'_>,
        out: &mut Vec<u8>,
    ) -> Poll<Result<bool, StreamClosed>> {
        self.incoming.borrow_mut().poll_content(context, out)
    }

    fn poll_closed(&self, context: &mut Context<'_>) -> Poll<()> {
        self.outgoing.borrow_mut().poll_stopped(context)
    }

    fn discard(&self) {
        self.incoming.borrow_mut().stop();
    }

    fn invite(&self) -> io::Result<()> {
        let mut block = Vec::new();
        encoder::status(&mut block, Status::Continue.code());
        let mut outgoing = self.outgoing.borrow_mut();
        outgoing.head(&block);
        outgoing.flush();
        Ok(())
    }
}
