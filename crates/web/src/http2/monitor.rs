//! Observes the frames of a connection in both directions, below h2. It counts frames and finds malformed
//! requests that h2 accepts.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use crate::http2::flood::{Flood, MAX_PER_WINDOW};
use crate::http2::frames::{Frame, Frames, PREFACE, Part, kind};
use crate::http2::hpack::Fields;

const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
const HAS_PRIORITY: u8 = 0x20;
/// Largest field block, in bytes. h2's limit for a request is lower.
const MAX_BLOCK: usize = 128 * 1024;

/// Observer of one connection's frames.
pub(super) struct Monitor {
    state: RefCell<State>,
    /// The connection must end with ENHANCE_YOUR_CALM.
    flooded: Cell<bool>,
}

struct State {
    received: Frames,
    sent: Frames,
    flood: Flood,
    requests: Requests,
}

/// State of the received requests.
struct Requests {
    /// `None` once a block could not be decoded.
    fields: Option<Fields>,
    /// The received part of a field block that spans several frames.
    block: Vec<u8>,
    /// Streams with a malformed request that h2 has not accepted yet.
    malformed: Vec<u32>,
}

impl Monitor {
    pub(super) fn new() -> Self {
        let requests =
            Requests { fields: Some(Fields::new()), block: Vec::new(), malformed: Vec::new() };
        let state = State {
            received: Frames::behind(PREFACE),
            sent: Frames::behind(0),
            flood: Flood::new(),
            requests,
        };
        Self { state: RefCell::new(state), flooded: Cell::new(false) }
    }

    /// Processes received bytes before h2 reads them.
    pub(super) fn received(&self, bytes: &[u8], now: Duration) {
        let State { received, flood, requests, .. } = &mut *self.state.borrow_mut();
        flood.at(now);
        received.follow(bytes, |frame, part| match (part, frame.kind) {
            (Part::Head, _) => flood.received(frame),
            (Part::Payload(piece, last), kind::HEADERS | kind::CONTINUATION) => {
                requests.add(frame, piece, last);
            }
            (Part::Payload(..), _) => (),
        });
        if !flood.is_calm() || !requests.is_bounded() {
            self.flooded.set(true);
        }
    }

    /// Processes bytes written by h2.
    pub(super) fn sent(&self, bytes: &[u8]) {
        let State { sent, flood, .. } = &mut *self.state.borrow_mut();
        sent.follow(bytes, |frame, part| {
            if matches!(part, Part::Head) {
                flood.sent(frame);
            }
        });
        if !flood.is_calm() {
            self.flooded.set(true);
        }
    }

    /// Whether the connection must end with ENHANCE_YOUR_CALM.
    pub(super) fn is_flooded(&self) -> bool {
        self.flooded.get()
    }

    /// As [`is_flooded`](Self::is_flooded), and resets the flag: the caller sends the error.
    pub(super) fn take_flooded(&self) -> bool {
        self.flooded.take()
    }

    /// Whether the request of this stream is malformed in a way that h2 does not detect. h2 accepts requests
    /// in the order of their streams, so state of earlier streams is discarded.
    pub(super) fn is_malformed(&self, stream: u32) -> bool {
        let malformed = &mut self.state.borrow_mut().requests.malformed;
        if malformed.is_empty() {
            return false;
        }
        let is_one = malformed.contains(&stream);
        malformed.retain(|other| *other > stream);
        is_one
    }
}

impl Requests {
    /// Processes a piece of a frame that contains fields.
    fn add(&mut self, frame: &Frame, piece: &[u8], last: bool) {
        let ends = last && frame.flags & END_HEADERS != 0;
        let begins = frame.kind == kind::HEADERS;
        if ends && begins && piece.len() == frame.length {
            return self.read(frame, within(piece, frame.flags));
        }
        self.block.extend_from_slice(piece);
        if last && begins {
            let block = std::mem::take(&mut self.block);
            self.block.extend_from_slice(within(&block, frame.flags));
        }
        if ends {
            // An idle connection keeps no buffer.
            let block = std::mem::take(&mut self.block);
            self.read(frame, &block);
        }
    }

    /// Decodes a complete block. h2 ends the connection for an invalid one.
    fn read(&mut self, frame: &Frame, block: &[u8]) {
        match self.fields.as_mut().map(|fields| fields.has_fragment(block)) {
            Some(Some(true)) => self.malformed.push(frame.stream),
            Some(Some(false)) | None => (),
            Some(None) => self.fields = None,
        }
    }

    fn is_bounded(&self) -> bool {
        self.block.len() <= MAX_BLOCK && self.malformed.len() <= MAX_PER_WINDOW as usize
    }
}

/// The field block in the payload of a HEADERS frame with these flags (RFC 9113 §6.2); empty if the padding
/// is invalid.
fn within(payload: &[u8], flags: u8) -> &[u8] {
    let (padding, block) = match payload {
        [padding, rest @ ..] if flags & PADDED != 0 => (usize::from(*padding), rest),
        _ => (0, payload),
    };
    let begin = if flags & HAS_PRIORITY != 0 { 5 } else { 0 };
    block.len().checked_sub(padding).and_then(|end| block.get(begin..end)).unwrap_or(&[])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http2::frames::tests::frame;

    /// `:path` is `/a#b`.
    const FRAGMENT: &[u8] = b"\x82\x87\x04\x04/a#b";
    const NONE: &[u8] = b"\x82\x87\x04\x04/a/b";

    #[test]
    fn malformed_requests_are_found_in_frames() {
        let padded = [&[3][..], FRAGMENT, &[0; 3]].concat();
        let both = [&[3, 0, 0, 0, 0, 7][..], FRAGMENT, &[0; 3]].concat();
        let (first, second) = both.split_at(10);
        let mut bytes = vec![0; PREFACE];
        for (stream, flags, payload) in [
            (1, END_HEADERS, FRAGMENT),
            (3, END_HEADERS, NONE),
            (5, END_HEADERS | PADDED, &padded[..]),
            (7, END_HEADERS | PADDED | HAS_PRIORITY, &both[..]),
            (9, END_HEADERS, NONE),
        ] {
            bytes.extend(frame(kind::HEADERS, flags, stream, payload));
        }
        // Split into frames, with padding in the first.
        let first = [first, &[0; 3]].concat();
        let second = &second[..second.len() - 3];
        bytes.extend(frame(kind::HEADERS, PADDED | HAS_PRIORITY, 11, &first));
        for byte in second {
            bytes.extend(frame(kind::CONTINUATION, 0, 11, &[*byte]));
        }
        bytes.extend(frame(kind::CONTINUATION, END_HEADERS, 11, &[]));
        bytes.extend(frame(kind::HEADERS, END_HEADERS, 13, NONE));
        for cut in [1, 5, 9, 1000] {
            let monitor = Monitor::new();
            bytes.chunks(cut).for_each(|piece| monitor.received(piece, Duration::ZERO));
            let found = [1, 3, 5, 7, 9, 11, 13].map(|stream| monitor.is_malformed(stream));
            assert_eq!(found, [true, false, true, true, false, true, false], "split at {cut}");
            assert!(!monitor.is_flooded());
            assert!(monitor.state.borrow().requests.malformed.is_empty());
        }
    }

    #[test]
    fn blocks_are_bounded() {
        let monitor = Monitor::new();
        monitor.received(&[0; PREFACE], Duration::ZERO);
        monitor.received(&frame(kind::HEADERS, 0, 1, &[0; 16_000]), Duration::ZERO);
        for _ in 0..7 {
            assert!(!monitor.is_flooded());
            monitor.received(&frame(kind::CONTINUATION, 0, 1, &[0; 16_384]), Duration::ZERO);
        }
        monitor.received(&frame(kind::CONTINUATION, 0, 1, &[0; 16_384]), Duration::ZERO);
        assert!(monitor.take_flooded());
    }
}
