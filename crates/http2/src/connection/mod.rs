//! One connection.
//!
//! | file | idea |
//! |---|---|
//! | `headers.rs` | HEADERS and CONTINUATION: requests and trailers |
//! | `content.rs` | DATA: content of requests |
//! | `control.rs` | frames that concern the connection, and their responses |
//! | `respond.rs` | response heads, content and trailers, within the client's windows |
//! | `end.rs` | resets, errors and shutdown |

mod content;
mod control;
mod end;
mod headers;
mod respond;

use std::collections::VecDeque;
use std::task::Waker;
use std::time::Duration;

use crate::PREFACE;
use crate::error::{Code, Error};
use crate::flood::{Excess, Flood};
use crate::frame::{Frame, HEADER_LENGTH, kind};
use crate::head::Head;
use crate::hpack::decoder::Decoder;
use crate::settings::{INITIAL_WINDOW, Limits, MAX_FRAME_SIZE, PeerSettings};
use crate::streams::Streams;
use crate::window::{ReceiveWindow, SendWindow};

pub use content::Body;
use headers::Block;

/// A request.
#[derive(Debug)]
pub struct Request {
    /// The stream.
    pub stream: u32,
    /// The head.
    pub head: Head,
    /// Whether content follows. Except for CONNECT, the caller either takes it with [`Connection::poll_content`], or
    /// waits for its end with [`Connection::poll_body`] before it responds, because until then the request may turn
    /// out to be malformed.
    pub has_body: bool,
}

/// Start of a connection (RFC 9113 §3.4).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Start {
    Preface,
    Settings,
    Complete,
}

/// End of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// New streams are accepted.
    Open,
    /// The first GOAWAY of a graceful shutdown was sent.
    Announced,
    /// The last GOAWAY was sent; streams after this one are ignored.
    Leaving(u32),
    /// A connection error was sent.
    Failed,
}

/// The server's side of a connection.
pub struct Connection {
    limits: Limits,
    peer: PeerSettings,
    start: Start,
    end: End,
    /// Whether the client has sent GOAWAY.
    peer_leaves: bool,
    decoder: Decoder,
    /// A field block that is not complete.
    block: Option<Block>,
    streams: Streams,
    send_window: SendWindow,
    receive_window: ReceiveWindow,
    /// Streams that wait for the connection's window or the output buffer, in the order of their turns.
    queue: VecDeque<u32>,
    flood: Flood,
    out: Vec<u8>,
    /// The operation that sends the output.
    sender: Option<Waker>,
    /// Memory for the next requests.
    heads: Vec<Head>,
}

impl Connection {
    /// Creates a connection. The output starts with the server's settings.
    pub fn new(limits: Limits) -> Self {
        let mut out = Vec::new();
        limits.write(&mut out);
        Self {
            limits,
            peer: PeerSettings::new(),
            start: Start::Preface,
            end: End::Open,
            peer_leaves: false,
            decoder: Decoder::new(),
            block: None,
            streams: Streams::new(),
            send_window: SendWindow(INITIAL_WINDOW),
            receive_window: ReceiveWindow::new(),
            queue: VecDeque::new(),
            flood: Flood::default(),
            out,
            sender: None,
            heads: Vec::new(),
        }
    }

    /// Processes `input` from offset `taken` until the next request, and advances `taken`. Returns `None` if
    /// there is no further request. The caller keeps the remaining bytes, at most one incomplete frame of
    /// 16 KiB, and passes them again with more input.
    ///
    /// Responses to frames are appended to the output. After a connection error, which is in the output as well, all
    /// input is ignored. `now` is the time for the flood limits.
    pub fn next_request(
        &mut self,
        input: &[u8],
        consumed: &mut usize,
        now: Duration,
    ) -> Option<Request> {
        self.flood.at(now);
        while self.end != End::Failed {
            match self.step(&input[*consumed..], consumed) {
                Ok(Some(Step::Request(request))) => return Some(request),
                Ok(Some(Step::Frame)) => (),
                Ok(None) => return None,
                Err(Error::Stream(stream, code)) => self.send_reset(stream, code),
                Err(Error::Connection(code)) => self.fail(code),
            }
            if self.flood.excess().is_some() {
                self.fail(Code::ENHANCE_YOUR_CALM);
            }
        }
        *consumed = input.len();
        None
    }

    /// Processes the preface or one frame at the start of `input`, if it is complete.
    #[inline]
    fn step(&mut self, input: &[u8], consumed: &mut usize) -> Result<Option<Step>, Error> {
        if self.start == Start::Preface {
            return self.preface(input, consumed);
        }
        let Some(header) = input.first_chunk() else { return Ok(None) };
        let frame = Frame::parse(header);
        if frame.length > MAX_FRAME_SIZE {
            return Err(Error::Connection(Code::FRAME_SIZE_ERROR));
        }
        let end = HEADER_LENGTH + frame.length;
        let Some(payload) = input.get(HEADER_LENGTH..end) else { return Ok(None) };
        *consumed += end;
        self.flood.received(&frame);
        if self.start == Start::Settings {
            if frame.kind != kind::SETTINGS {
                return Err(Error::Connection(Code::PROTOCOL_ERROR));
            }
            self.start = Start::Complete;
        }
        // A field block is not interrupted by other frames (RFC 9113 §6.10).
        if self.block.is_some() && frame.kind != kind::CONTINUATION {
            return Err(Error::Connection(Code::PROTOCOL_ERROR));
        }
        let request = match frame.kind {
            kind::HEADERS => self.headers(&frame, payload)?,
            kind::CONTINUATION => self.continuation(&frame, payload)?,
            kind::DATA => self.data(&frame, payload)?,
            kind::WINDOW_UPDATE => self.window_update(&frame, payload)?,
            kind::SETTINGS => self.settings(&frame, payload)?,
            kind::RST_STREAM => self.rst_stream(&frame, payload)?,
            kind::PING => self.ping(&frame, payload)?,
            kind::PRIORITY => self.priority(&frame, payload)?,
            kind::GOAWAY => self.goaway(&frame, payload)?,
            kind::PUSH_PROMISE => return Err(Error::Connection(Code::PROTOCOL_ERROR)),
            // RFC 9113 §5.5.
            _ => None,
        };
        Ok(Some(request.map_or(Step::Frame, Step::Request)))
    }

    fn preface(&mut self, input: &[u8], consumed: &mut usize) -> Result<Option<Step>, Error> {
        let length = input.len().min(PREFACE.len());
        if input[..length] != PREFACE[..length] {
            return Err(Error::Connection(Code::PROTOCOL_ERROR));
        }
        if length < PREFACE.len() {
            return Ok(None);
        }
        *consumed += length;
        self.start = Start::Settings;
        Ok(Some(Step::Frame))
    }

    /// Changes the [limit of content](Limits::body), including for open streams.
    pub fn set_body_limit(&mut self, limit: u64) {
        self.limits.body = limit;
    }

    /// Returns the memory of a request's head.
    pub fn recycle(&mut self, mut head: Head) {
        if self.heads.len() < MAX_SPARE_HEADS && head.capacity() <= MAX_SPARE_HEAD_BYTES {
            head.clear();
            self.heads.push(head);
        }
    }

    /// Whether the client's preface and settings were received.
    pub fn has_started(&self) -> bool {
        self.start == Start::Complete
    }

    /// Whether any stream is open or half-closed.
    pub fn has_streams(&self) -> bool {
        self.streams.len() > 0
    }

    /// The limit for which the connection ended with ENHANCE_YOUR_CALM, if it did.
    pub fn excess(&self) -> Option<Excess> {
        self.flood.excess()
    }
}

/// Result of processing some input.
enum Step {
    Frame,
    Request(Request),
}

/// Heads kept for later requests.
const MAX_SPARE_HEADS: usize = 8;
/// Larger heads are not kept, in bytes.
const MAX_SPARE_HEAD_BYTES: usize = 2048;
