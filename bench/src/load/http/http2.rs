//! The part of HTTP/2 (RFC 9113) needed to send GETs and count answers.
//!
//! Written by hand, so that the load costs less than the server: requests are encoded once, in stateless fields,
//! and only status and end of an answer are parsed. The client announces a header table of size 0 (RFC 7541
//! §4.2), so that no decoder state is needed.

use phalanx_http::client::BadResponse;
use phalanx_http2::PREFACE;
use phalanx_http2::primitives::{integer, static_table, string};

use super::responses::Answer;

/// Size of a frame header: length in three bytes, type, flags, stream in four.
const FRAME_HEADER_LEN: usize = 9;
/// Default maximum frame size (§6.5.2).
const MAX_FRAME_SIZE: usize = 16 * 1024;
/// Maximum flow-control window (§6.9.1), and its initial size.
const MAX_WINDOW: u32 = (1 << 31) - 1;
const INITIAL_WINDOW: u32 = 65_535;
/// Consumed bytes of the connection window after which it is replenished.
const WINDOW_UPDATE_THRESHOLD: u32 = 1 << 30;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;

const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
const PRIORITY: u8 = 32;

/// Parser of the answers of one connection.
#[derive(Debug)]
pub(crate) struct Frames {
    /// Received bytes; the unparsed ones begin at `at`.
    buffer: Vec<u8>,
    at: usize,
    /// Remaining bytes of a DATA frame, its stream, and whether it ends the stream.
    content: Option<(usize, u32, bool)>,
    /// Streams whose head was received, unordered: id and status.
    heads: Vec<(u32, u16)>,
    /// Number of opened streams.
    opened: u32,
    /// Concurrent streams allowed by the server; `None` before its settings.
    allowed: Option<u32>,
    /// Whether the server accepts no more requests on this connection.
    leaving: bool,
    /// Received DATA bytes since the last window update.
    received: u32,
    /// Control frames to send with the next write.
    reply: Vec<u8>,
}

impl Frames {
    /// State of a new connection.
    pub(crate) fn new() -> Self {
        let mut reply = PREFACE.to_vec();
        let settings = [(1_u16, 0_u32), (2, 0), (4, MAX_WINDOW)];
        frame(&mut reply, SETTINGS, 0, 0, 6 * settings.len());
        for (name, value) in settings {
            reply.extend_from_slice(&name.to_be_bytes());
            reply.extend_from_slice(&value.to_be_bytes());
        }
        open_window(&mut reply, MAX_WINDOW - INITIAL_WINDOW);
        Self {
            buffer: Vec::new(),
            at: 0,
            content: None,
            heads: Vec::new(),
            opened: 0,
            allowed: None,
            leaving: false,
            received: 0,
            reply,
        }
    }

    /// The buffer to which received bytes are appended.
    pub(crate) fn space(&mut self) -> &mut Vec<u8> {
        self.buffer.drain(..self.at);
        self.at = 0;
        &mut self.buffer
    }

    /// Moves pending control frames to `out`.
    pub(crate) fn reply(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.reply);
    }

    /// Maximum number of concurrent streams; `None` before the server's settings.
    pub(crate) fn room(&self) -> Option<usize> {
        let allowed = self.allowed?;
        // Stream identifiers are odd and finite.
        let over = self.leaving || self.opened >= MAX_WINDOW / 2;
        Some(if over { 0 } else { allowed as usize })
    }

    /// Appends a request to `out`, with fields encoded by [`fields`].
    pub(crate) fn ask(&mut self, fields: &[u8], out: &mut Vec<u8>) {
        frame(out, HEADERS, END_HEADERS | END_STREAM, 2 * self.opened + 1, fields.len());
        out.extend_from_slice(fields);
        self.opened += 1;
    }

    /// The next complete answer; `None` if more bytes are needed.
    pub(crate) fn next(&mut self) -> Result<Option<Answer>, BadResponse> {
        loop {
            if let Some((left, stream, end)) = self.content {
                let here = left.min(self.buffer.len() - self.at);
                self.at += here;
                self.take_content(here as u32);
                if here < left {
                    self.content = Some((left - here, stream, end));
                    return Ok(None);
                }
                self.content = None;
                if end {
                    return self.end(stream).map(Some);
                }
            }
            let bytes = &self.buffer[self.at..];
            let Some(head) = bytes.first_chunk::<FRAME_HEADER_LEN>() else { return Ok(None) };
            let [a, b, c, kind, flags, s @ ..] = *head;
            let length = u32::from_be_bytes([0, a, b, c]) as usize;
            let stream = u32::from_be_bytes(s) & MAX_WINDOW;
            if kind == DATA {
                self.at += FRAME_HEADER_LEN;
                self.content = Some((length, stream, flags & END_STREAM != 0));
                continue;
            }
            if length > MAX_FRAME_SIZE {
                return Err(BadResponse);
            }
            let Some(payload) = bytes.get(FRAME_HEADER_LEN..FRAME_HEADER_LEN + length) else {
                return Ok(None);
            };
            let ends = kind == HEADERS && flags & END_STREAM != 0;
            match kind {
                HEADERS if self.heads.iter().any(|(other, _)| *other == stream) => (), // trailers
                HEADERS => match status(fragment(payload, flags)?).ok_or(BadResponse)? {
                    100..200 => (),
                    status => self.heads.push((stream, status)),
                },
                SETTINGS if flags & ACK == 0 => {
                    let allowed = self.allowed.get_or_insert(u32::MAX);
                    for setting in payload.chunks_exact(6) {
                        if setting[..2] == [0, 3] {
                            *allowed = u32::from_be_bytes([2, 3, 4, 5].map(|at| setting[at]));
                        }
                    }
                    frame(&mut self.reply, SETTINGS, ACK, 0, 0);
                }
                PING if flags & ACK == 0 => {
                    frame(&mut self.reply, PING, ACK, 0, length);
                    self.reply.extend_from_slice(payload);
                }
                GOAWAY => self.leaving = true,
                RST_STREAM => return Err(BadResponse),
                _ => (),
            }
            self.at += FRAME_HEADER_LEN + length;
            if ends {
                return self.end(stream).map(Some);
            }
        }
    }

    fn end(&mut self, stream: u32) -> Result<Answer, BadResponse> {
        let at = self.heads.iter().position(|(other, _)| *other == stream).ok_or(BadResponse)?;
        let (_, status) = self.heads.swap_remove(at);
        Ok(Answer { status, keep_alive: true, number: Some(u64::from(stream / 2)) })
    }

    fn take_content(&mut self, bytes: u32) {
        self.received += bytes;
        if self.received >= WINDOW_UPDATE_THRESHOLD {
            open_window(&mut self.reply, self.received);
            self.received = 0;
        }
    }
}

/// Appends a frame header.
fn frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, length: usize) {
    out.extend_from_slice(&(length as u32).to_be_bytes()[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
}

fn open_window(out: &mut Vec<u8>, by: u32) {
    frame(out, WINDOW_UPDATE, 0, 0, 4);
    out.extend_from_slice(&by.to_be_bytes());
}

/// Appends the fields of a GET (RFC 7541 §6): two fully indexed, two with an indexed name.
pub(crate) fn fields(out: &mut Vec<u8>, tls: bool, authority: &str, path: &str) {
    out.extend_from_slice(&[0x82, if tls { 0x87 } else { 0x86 }]);
    for (name, value) in [(1, authority), (4, path)] {
        out.push(name);
        literal(out, value);
    }
}

/// Appends the fields of a browser: the coding that all servers have, and the time of its version of the file, if any.
pub(crate) fn browser_fields(out: &mut Vec<u8>, since: Option<&str>) {
    // Names of the static table: `accept-encoding` is 16, and `if-modified-since` 40, in a prefix of four bits.
    for (name, value) in [(16, Some("gzip")), (40, since)] {
        if let Some(value) = value {
            out.extend_from_slice(&[0x0f, name - 15]);
            literal(out, value);
        }
    }
}

/// Appends a string (RFC 7541 §5.2) without Huffman coding.
fn literal(out: &mut Vec<u8>, value: &str) {
    integer::encode(out, 0, 7, value.len());
    out.extend_from_slice(value.as_bytes());
}

/// The header block fragment of a frame, without padding and priority.
fn fragment(payload: &[u8], flags: u8) -> Result<&[u8], BadResponse> {
    let (mut start, mut end) = (0, payload.len());
    if flags & PADDED != 0 {
        start += 1;
        end = end.saturating_sub(usize::from(*payload.first().ok_or(BadResponse)?));
    }
    if flags & PRIORITY != 0 {
        start += 5;
    }
    payload.get(start..end).ok_or(BadResponse)
}

/// The status, the first field of a response, since only pseudo-header fields begin with a colon (RFC 9113 §8.3).
fn status(mut fields: &[u8]) -> Option<u16> {
    // Skip updates of the dynamic table size.
    while fields.first()? & 0xe0 == 0x20 {
        integer::decode(&mut fields, 5)?;
    }
    // An indexed field, or a literal with an indexed name: with incremental indexing, without it, or never indexed.
    let is_indexed = fields.first()? & 0x80 != 0;
    let bits = match fields.first()? {
        0x80.. => 7,
        0x40.. => 6,
        _ => 4,
    };
    let (name, known) = static_table::get(integer::decode(&mut fields, bits)?)?;
    let mut value = Vec::new();
    if !is_indexed {
        string::decode(&mut fields, 7, &mut value)?;
    }
    let value = str::from_utf8(if is_indexed { known } else { &value }).ok()?;
    value.parse().ok().filter(|status| name == b":status" && (100..1000).contains(status))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames of a server: settings, two interleaved answers, one of them with an interim response, and others.
    fn answers() -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut add = |kind, flags, stream, payload: &[u8]| {
            frame(&mut bytes, kind, flags, stream, payload.len());
            bytes.extend_from_slice(payload);
        };
        add(SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 100, 0, 4, 0, 1, 0, 0]);
        add(SETTINGS, ACK, 0, &[]);
        add(WINDOW_UPDATE, 0, 0, &[0, 1, 0, 0]);
        add(HEADERS, END_HEADERS, 1, &[0x08, 3, b'1', b'0', b'3']);
        add(HEADERS, END_HEADERS | PADDED, 3, &[2, 0x20, 0x88, 0, 0]);
        add(HEADERS, END_HEADERS | PRIORITY, 1, &[0, 0, 0, 0, 1, 0x3f, 0x80, 0x01, 0x8d, 0x5a]);
        add(DATA, 0, 1, b"not ");
        add(PING, 0, 0, b"12345678");
        add(DATA, END_STREAM, 3, &[0; 70]);
        add(DATA, 0, 1, b"found");
        add(HEADERS, END_HEADERS | END_STREAM, 1, &[0x00, 1, b'a', 1, b'b']);
        // 503 in Huffman code: 011011 00000 011001, padded with ones.
        add(
            HEADERS,
            END_HEADERS | END_STREAM,
            5,
            &[0x48, 0x83, 0b0110_1100, 0b0000_1100, 0b1111_1111],
        );
        add(GOAWAY, 0, 0, &[0; 8]);
        bytes
    }

    #[test]
    fn answers_parse_in_any_pieces() {
        let bytes = answers();
        for piece in 1..=bytes.len() {
            let mut frames = Frames::new();
            let (mut sent, mut found) = (Vec::new(), Vec::new());
            frames.reply(&mut sent);
            assert!(sent.starts_with(PREFACE) && frames.room().is_none());
            sent.clear();
            for part in bytes.chunks(piece) {
                frames.space().extend_from_slice(part);
                while let Some(answer) = frames.next().unwrap() {
                    assert_eq!(frames.room(), Some(100));
                    found.push((answer.number.unwrap(), answer.status));
                }
            }
            assert_eq!(found, [(1, 200), (0, 404), (2, 503)], "in pieces of {piece}");
            assert_eq!(frames.room(), Some(0));
            frames.reply(&mut sent);
            let mut wanted = Vec::new();
            frame(&mut wanted, SETTINGS, ACK, 0, 0);
            frame(&mut wanted, PING, ACK, 0, 8);
            wanted.extend_from_slice(b"12345678");
            assert_eq!(sent, wanted);
        }
    }

    #[test]
    fn windows_are_replenished() {
        let mut frames = Frames::new();
        frames.reply.clear();
        frames.take_content(WINDOW_UPDATE_THRESHOLD - 1);
        assert!(frames.reply.is_empty());
        frames.take_content(9);
        let mut wanted = Vec::new();
        open_window(&mut wanted, WINDOW_UPDATE_THRESHOLD + 8);
        assert_eq!((&frames.reply, frames.received), (&wanted, 0));
    }

    #[test]
    fn invalid_frames_are_errors() {
        for (kind, flags, payload) in [
            (RST_STREAM, 0, &[0, 0, 0, 8][..]),
            (HEADERS, END_HEADERS, &[]),
            (HEADERS, END_HEADERS, &[0x08, 3, b'0', b'0', b'3']),
            (HEADERS, END_HEADERS | PADDED, &[9, 0x88]),
            (HEADERS, END_HEADERS, &[0x08, 0x83, 0xff, 0xff, 0xff]),
            (DATA, END_STREAM, &[]),
        ] {
            let mut frames = Frames::new();
            frame(frames.space(), kind, flags, 1, payload.len());
            frames.space().extend_from_slice(payload);
            assert!(frames.next().is_err(), "{kind} {flags} {payload:?}");
        }
    }

    #[test]
    fn a_request_is_a_frame() {
        let (mut frames, mut out, mut get) = (Frames::new(), Vec::new(), Vec::new());
        fields(&mut get, true, "a:8", &format!("/{}", "x".repeat(299)));
        frames.ask(&get, &mut out);
        frames.ask(&get, &mut out);
        let one = &out[..out.len() / 2];
        assert_eq!(
            one[..FRAME_HEADER_LEN],
            [0, 1, 55, HEADERS, END_HEADERS | END_STREAM, 0, 0, 0, 1]
        );
        // 300 is encoded as 127 and 173: 45 plus 128.
        assert_eq!(
            one[FRAME_HEADER_LEN..][..11],
            [0x82, 0x87, 1, 3, b'a', b':', b'8', 4, 127, 173, 1]
        );
        assert_eq!(out[out.len() / 2 + 8], 3);
        let mut more = Vec::new();
        browser_fields(&mut more, Some("x"));
        assert_eq!(more, b"\x0f\x01\x04gzip\x0f\x19\x01x");
    }
}
