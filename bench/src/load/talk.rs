//! What is spoken on a connection: HTTP/1.1, or HTTP/2.

use phalanx_http::client::BadResponse;

use super::answers::{Answer, Answers};
use super::http2::Frames;

/// One connection's half of it, whichever it is.
#[derive(Debug)]
pub(crate) enum Talk {
    One(Answers),
    Two(Box<Frames>),
}

impl Talk {
    pub(crate) fn new(http2: bool) -> Self {
        if http2 { Self::Two(Box::new(Frames::new())) } else { Self::One(Answers::default()) }
    }

    /// Forgets the connection; where nothing was said at its beginning, not the memory.
    pub(crate) fn reset(&mut self) {
        match self {
            Self::One(answers) => answers.reset(),
            Self::Two(frames) => **frames = Frames::new(),
        }
    }

    /// Moves what the protocol itself has to say to `out`.
    pub(crate) fn reply(&mut self, out: &mut Vec<u8>) {
        if let Self::Two(frames) = self {
            frames.reply(out);
        }
    }

    /// How many requests may be under way; none is known before the server has said so.
    pub(crate) fn room(&self) -> Option<usize> {
        match self {
            Self::One(_) => Some(usize::MAX),
            Self::Two(frames) => frames.room(),
        }
    }

    /// Adds `request` to `out`.
    pub(crate) fn ask(&mut self, request: &[u8], out: &mut Vec<u8>) {
        match self {
            Self::One(_) => out.extend_from_slice(request),
            Self::Two(frames) => frames.ask(request, out),
        }
    }

    /// Where more bytes are to be appended.
    pub(crate) fn space(&mut self) -> &mut Vec<u8> {
        match self {
            Self::One(answers) => answers.space(),
            Self::Two(frames) => frames.space(),
        }
    }

    /// So many of the bytes to come nobody needs to see, once [`next`](Self::next) has seen all others.
    pub(crate) fn ahead(&self) -> u64 {
        match self {
            Self::One(answers) => answers.ahead(),
            Self::Two(_) => 0,
        }
    }

    /// So many of these have come, and are gone.
    pub(crate) fn skipped(&mut self, bytes: u64) {
        if let Self::One(answers) = self {
            answers.skipped(bytes);
        }
    }

    /// The next answer that is whole; `None` if more bytes are needed.
    ///
    /// # Errors
    /// When what came is not what is spoken.
    pub(crate) fn next(&mut self) -> Result<Option<Answer>, BadResponse> {
        match self {
            Self::One(answers) => answers.next(),
            Self::Two(frames) => frames.next(),
        }
    }

    /// The connection has been closed in good order: the answer that this ends, if it does.
    pub(crate) fn close(&mut self) -> Option<Answer> {
        match self {
            Self::One(answers) => answers.close(),
            Self::Two(_) => None,
        }
    }
}
