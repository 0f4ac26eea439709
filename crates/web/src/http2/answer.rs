//! HTTP/2 responses: sends head and content as flow control allows.

use std::io;
use std::task::{Context, Poll, ready};

use phalanx_http2::{Closed, Code};

use crate::http2::SharedConnection;
use crate::respond::writer::ResponseStream;

/// The response of one stream. Dropping it resets the stream, unless the response is complete.
pub(super) struct StreamAnswer {
    connection: SharedConnection,
    stream: u32,
    /// The connection uses TLS.
    is_tls: bool,
    state: State,
    /// The field block of the trailer section.
    trailers: Option<Vec<u8>>,
    /// Whether the request may have had an effect. Until then, the client may repeat a request that is dropped.
    has_begun: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    /// Nothing was sent.
    Head,
    /// The head was sent. Contains the remaining bytes of content, or `None` if the length is unknown.
    Content(Option<u64>),
    Done,
}

impl StreamAnswer {
    pub(super) fn new(connection: SharedConnection, stream: u32, is_tls: bool) -> Self {
        let (state, trailers) = (State::Head, None);
        Self { connection, stream, is_tls, state, trailers, has_begun: false }
    }

    /// Sends the trailer section, if there is one.
    fn send_trailers(&mut self) -> Option<Result<(), Closed>> {
        let block = self.trailers.take()?;
        let write = |out: &mut Vec<u8>| out.extend_from_slice(&block);
        Some(self.connection.borrow_mut().trailers(self.stream, write))
    }

    /// Ends the stream without a complete response.
    fn reset(&mut self, code: Code) {
        if self.state != State::Done {
            self.state = State::Done;
            self.connection.borrow_mut().reset(self.stream, code);
        }
    }
}

impl ResponseStream for StreamAnswer {
    fn set_begun(&mut self, has_begun: bool) {
        self.has_begun = has_begun;
    }

    fn is_tls(&self) -> bool {
        self.is_tls
    }

    fn start(&mut self, block: &[u8], content: Option<u64>) -> io::Result<()> {
        if self.state != State::Head {
            return Err(io::Error::other("a second response on a stream"));
        }
        let end = content == Some(0);
        self.state = if end { State::Done } else { State::Content(content) };
        let write = |out: &mut Vec<u8>| out.extend_from_slice(block);
        self.connection.borrow_mut().respond(self.stream, end, write).map_err(broken)
    }

    fn poll_send(&mut self, content: &[u8], context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        // Content beyond the declared length is a bug, and must not reach another stream.
        let (State::Content(left), length) = (self.state, content.len() as u64) else {
            return Poll::Ready(Err(io::Error::other("content behind the end of a response")));
        };
        if left.is_some_and(|left| left < length) {
            return Poll::Ready(Err(io::Error::other("more content than the declared length")));
        }
        let ends = left == Some(length) && self.trailers.is_none();
        let mut connection = self.connection.borrow_mut();
        let sent = loop {
            let sent = connection.send(self.stream, content, ends).map_err(broken)?;
            if sent > 0 {
                break sent;
            }
            ready!(connection.poll_room(context, self.stream)).map_err(broken)?;
        };
        drop(connection);
        self.state = State::Content(left.map(|left| left - sent as u64));
        if self.state == State::Content(Some(0)) {
            self.state = State::Done;
            // An error means that the stream has ended.
            let _ = self.send_trailers();
        }
        Poll::Ready(Ok(sent))
    }

    fn set_trailers(&mut self, block: Vec<u8>) {
        self.trailers = Some(block);
    }

    fn poll_closed(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.connection.borrow_mut().poll_closed(context, self.stream)
    }

    fn end(&mut self, result: io::Result<()>) {
        match (self.state, result) {
            (State::Content(None), Ok(())) => {
                self.state = State::Done;
                // An error means that the stream has ended.
                if self.send_trailers().is_none() {
                    let _ = self.connection.borrow_mut().send(self.stream, &[], true);
                }
            }
            // The client did not open its window in time. This is not a server error (RFC 9113 §7).
            (_, Err(error)) if error.kind() == io::ErrorKind::TimedOut => self.reset(Code::CANCEL),
            _ => self.reset(Code::INTERNAL_ERROR),
        }
    }
}

impl Drop for StreamAnswer {
    fn drop(&mut self) {
        self.reset(if self.has_begun { Code::INTERNAL_ERROR } else { Code::REFUSED_STREAM });
    }
}

fn broken(error: Closed) -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, error)
}
