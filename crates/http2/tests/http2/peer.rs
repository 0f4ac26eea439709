//! Frames from a client, and a parser for the server's frames.

use std::task::{Context, Poll, Waker};
use std::time::Duration;

use phalanx_http2::{Closed, Connection, Limits, PREFACE, Request};

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const PRIORITY: u8 = 2;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PUSH_PROMISE: u8 = 5;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

/// END_STREAM and END_HEADERS.
pub(crate) const WHOLE: u8 = 5;
pub(crate) const END_HEADERS: u8 = 4;
pub(crate) const ACK: u8 = 1;
pub(crate) const END_STREAM: u8 = 1;

/// `GET http://a/`.
pub(crate) const GET: &[u8] = b"\x82\x86\x84\x01\x01a";
/// `POST http://a/`.
pub(crate) const POST: &[u8] = b"\x83\x86\x84\x01\x01a";

pub(crate) const LIMITS: Limits = Limits { streams: 10, head: 8192, body: 100_000 };

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, a, b, c] = (payload.len() as u32).to_be_bytes();
    [&[a, b, c, kind, flags][..], &stream.to_be_bytes(), payload].concat()
}

/// WINDOW_UPDATE.
pub(crate) fn window(stream: u32, by: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &by.to_be_bytes())
}

/// (kind, flags, stream, payload)
pub(crate) type Frame = (u8, u8, u32, Vec<u8>);

pub(crate) fn frames(mut bytes: &[u8]) -> Vec<Frame> {
    let mut frames = Vec::new();
    while let [a, b, c, kind, flags, d, e, f, g, rest @ ..] = bytes {
        let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
        let (payload, after) = rest.split_at(length);
        frames.push((*kind, *flags, u32::from_be_bytes([*d, *e, *f, *g]), payload.to_vec()));
        bytes = after;
    }
    assert!(bytes.is_empty(), "an incomplete frame");
    frames
}

/// A server whose client is a test.
pub(crate) struct Server {
    pub(crate) connection: Connection,
    input: Vec<u8>,
    pub(crate) now: Duration,
}

impl Server {
    /// A connection that is set up.
    pub(crate) fn new(limits: Limits) -> Self {
        let mut server = Self::new_quiet(limits);
        server.feed(PREFACE);
        server.feed(&frame(SETTINGS, 0, 0, &[]));
        let frames = server.output();
        assert_eq!(
            (frames[0].0, frames[0].1, frames[1].0, frames[1].1),
            (SETTINGS, 0, SETTINGS, ACK)
        );
        assert!(server.connection.has_started());
        server
    }

    /// A connection without input.
    pub(crate) fn new_quiet(limits: Limits) -> Self {
        Self { connection: Connection::new(limits), input: Vec::new(), now: Duration::ZERO }
    }

    /// Passes bytes to the connection, and returns the requests.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Vec<Request> {
        self.input.extend_from_slice(bytes);
        let (mut requests, mut consumed) = (Vec::new(), 0);
        while let Some(request) = self.connection.next_request(&self.input, &mut consumed, self.now)
        {
            requests.push(request);
        }
        self.input.drain(..consumed);
        requests
    }

    pub(crate) fn output(&mut self) -> Vec<Frame> {
        frames(&self.connection.take_output(Vec::new()))
    }

    /// Code of the GOAWAY frame that ends the output, if it does.
    pub(crate) fn error(&mut self) -> Option<u32> {
        let frames = self.output();
        let (kind, _, _, payload) = frames.last()?;
        (*kind == GOAWAY).then(|| u32::from_be_bytes(payload[4..].try_into().unwrap()))
    }

    /// Code of the last RST_STREAM frame for a stream in the output.
    pub(crate) fn reset(&mut self, stream: u32) -> Option<u32> {
        let frames = self.output();
        let (.., payload) =
            frames.iter().rfind(|frame| frame.0 == RST_STREAM && frame.2 == stream)?;
        Some(u32::from_be_bytes(payload[..].try_into().unwrap()))
    }

    pub(crate) fn room(&mut self, stream: u32) -> Poll<Result<(), Closed>> {
        self.connection.poll_room(&mut Context::from_waker(Waker::noop()), stream)
    }

    pub(crate) fn body(&mut self, stream: u32) -> Poll<Result<phalanx_http2::Body, Closed>> {
        self.connection.poll_body(&mut Context::from_waker(Waker::noop()), stream)
    }

    /// Takes content: the bytes, and whether more may follow.
    pub(crate) fn content(&mut self, stream: u32) -> Poll<Result<(Vec<u8>, bool), Closed>> {
        let (context, mut out) = (&mut Context::from_waker(Waker::noop()), Vec::new());
        let polled = self.connection.poll_content(context, stream, &mut out);
        polled.map_ok(|more| (out, more))
    }

    /// The increments of a window in the output, 0 being that of the connection.
    pub(crate) fn opened(&mut self, window: u32) -> u32 {
        let frames = self.output();
        let updates = frames.iter().filter(|frame| frame.0 == WINDOW_UPDATE && frame.2 == window);
        updates.map(|(.., by)| u32::from_be_bytes(by[..].try_into().unwrap())).sum()
    }
}
