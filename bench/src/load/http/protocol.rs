//! The protocol of a connection: HTTP/1.1 or HTTP/2.

use phalanx_http::client::BadResponse;

use super::http2::Frames;
use super::responses::{Answer, ResponseParser};

/// Client state of one connection.
#[derive(Debug)]
pub(crate) enum Protocol {
    One(ResponseParser),
    Two(Box<Frames>),
}

impl Protocol {
    pub(crate) fn new(http2: bool) -> Self {
        if http2 {
            Self::Two(Box::new(Frames::new()))
        } else {
            Self::One(ResponseParser::default())
        }
    }

    /// Resets the state for a new connection; with HTTP/1.1 keeps the memory.
    pub(crate) fn reset(&mut self) {
        match self {
            Self::One(answers) => answers.reset(),
            Self::Two(frames) => **frames = Frames::new(),
        }
    }

    /// Moves pending control frames to `out`.
    pub(crate) fn reply(&mut self, out: &mut Vec<u8>) {
        if let Self::Two(frames) = self {
            frames.reply(out);
        }
    }

    /// Maximum number of concurrent requests; `None` before the server has announced it.
    pub(crate) fn room(&self) -> Option<usize> {
        match self {
            Self::One(_) => Some(usize::MAX),
            Self::Two(frames) => frames.room(),
        }
    }

    /// Appends `request` to `out`.
    pub(crate) fn ask(&mut self, request: &[u8], out: &mut Vec<u8>) {
        match self {
            Self::One(_) => out.extend_from_slice(request),
            Self::Two(frames) => frames.ask(request, out),
        }
    }

    /// The buffer to which received bytes are appended.
    pub(crate) fn space(&mut self) -> &mut Vec<u8> {
        match self {
            Self::One(answers) => answers.space(),
            Self::Two(frames) => frames.space(),
        }
    }

    /// Number of following bytes that need not be received into memory, after [`next`](Self::next) returned
    /// `None`.
    pub(crate) fn ahead(&self) -> u64 {
        match self {
            Self::One(answers) => answers.ahead(),
            Self::Two(_) => 0,
        }
    }

    /// Accounts for `bytes` of these that were received and discarded.
    pub(crate) fn skipped(&mut self, bytes: u64) {
        if let Self::One(answers) = self {
            answers.skipped(bytes);
        }
    }

    /// The next complete answer; `None` if more bytes are needed.
    pub(crate) fn next(&mut self) -> Result<Option<Answer>, BadResponse> {
        match self {
            Self::One(answers) => answers.next(),
            Self::Two(frames) => frames.next(),
        }
    }

    /// Handles an orderly close of the connection; returns the answer that it completes, if any.
    pub(crate) fn close(&mut self) -> Option<Answer> {
        match self {
            Self::One(answers) => answers.close(),
            Self::Two(_) => None,
        }
    }
}
