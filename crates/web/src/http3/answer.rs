//! HTTP/3 responses: sends head and content as flow control allows.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use phalanx_http3::Code;

use crate::http3::outgoing::Outgoing;
use crate::respond::writer::ResponseStream;

/// Complete responses whose last bytes wait for the client's window; the connection sends them. Their number is bounded
/// by the number of open streams.
pub(super) type Tails = Rc<RefCell<Vec<Rc<RefCell<Outgoing>>>>>;

/// The response of one stream. Dropping it resets the stream, unless the response is complete.
pub(super) struct StreamAnswer {
    outgoing: Rc<RefCell<Outgoing>>,
    tails: Tails,
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
    /// The head was sent. The number is the bytes of content left to send, in one frame.
    Content(u64),
    /// The head was sent, and content of unknown length follows. The number is the bytes left in the current frame.
    Pieces(u64),
    Done,
}

impl StreamAnswer {
    pub(super) fn new(outgoing: Rc<RefCell<Outgoing>>, tails: Tails) -> Self {
        Self { outgoing, tails, state: State::Head, trailers: None, has_begun: false }
    }

    /// The sending side of the stream.
    pub(super) fn outgoing(&self) -> Rc<RefCell<Outgoing>> {
        self.outgoing.clone()
    }

    /// Ends the stream without a complete response.
    fn reset(&mut self, code: Code) {
        if self.state != State::Done {
            self.state = State::Done;
            self.outgoing.borrow_mut().reset(code);
        }
    }

    /// Ends the stream after a complete response.
    fn finish(&mut self) {
        self.state = State::Done;
        if let Some(block) = self.trailers.take() {
            self.outgoing.borrow_mut().trailers(&block);
        }
        if !self.outgoing.borrow_mut().finish() {
            self.tails.borrow_mut().push(self.outgoing.clone());
        }
    }
}

impl ResponseStream for StreamAnswer {
    fn set_begun(&mut self, has_begun: bool) {
        self.has_begun = has_begun;
        self.outgoing.borrow_mut().set_begun(has_begun);
    }

    fn is_tls(&self) -> bool {
        true
    }

    fn start(&mut self, block: &[u8], content: Option<u64>) -> io::Result<()> {
        if self.state != State::Head {
            return Err(io::Error::other("a second response on a stream"));
        }
        let mut outgoing = self.outgoing.borrow_mut();
        outgoing.head(block);
        self.state = match content {
            Some(0) => {
                drop(outgoing);
                self.finish();
                return Ok(());
            }
            Some(length) => {
                outgoing.begin_content(length);
                State::Content(length)
            }
            None => State::Pieces(0),
        };
        outgoing.flush();
        Ok(())
    }

    fn poll_send(&mut self, content: &[u8], context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let length = content.len() as u64;
        let left = match self.state {
            // Content beyond the declared length is a bug.
            State::Content(left) if left < length => {
                return Poll::Ready(Err(io::Error::other("more content than the declared length")));
            }
            State::Content(left) => left,
            State::Pieces(0) => {
                self.outgoing.borrow_mut().begin_content(length);
                length
            }
            State::Pieces(left) => left,
            State::Head | State::Done => {
                return Poll::Ready(Err(io::Error::other("content behind the end of a response")));
            }
        };
        let is_piece = matches!(self.state, State::Pieces(_));
        if is_piece {
            // The frame has begun, even if the client's window is closed now.
            self.state = State::Pieces(left);
        }
        let now = &content[..length.min(left) as usize];
        let sent = ready!(self.outgoing.borrow_mut().poll_content(context, now))?;
        let left = left - sent as u64;
        match self.state {
            State::Content(_) if left == 0 => self.finish(),
            State::Content(_) => self.state = State::Content(left),
            _ => self.state = State::Pieces(left),
        }
        Poll::Ready(Ok(sent))
    }

    fn set_trailers(&mut self, block: Vec<u8>) {
        self.trailers = Some(block);
    }

    fn poll_closed(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.outgoing.borrow_mut().poll_stopped(context)
    }

    fn end(&mut self, result: io::Result<()>) {
        match (self.state, result) {
            (State::Pieces(0), Ok(())) => self.finish(),
            // The client did not open its window in time. This is not a server error.
            (_, Err(error)) if error.kind() == io::ErrorKind::TimedOut => {
                self.reset(Code::REQUEST_CANCELLED);
            }
            _ => self.reset(Code::INTERNAL_ERROR),
        }
    }
}

impl Drop for StreamAnswer {
    fn drop(&mut self) {
        self.reset(if self.has_begun { Code::INTERNAL_ERROR } else { Code::REQUEST_REJECTED });
    }
}
