//! Parser for the frame boundaries of one direction of a connection (RFC 9113 §4.1), for input in any pieces.

/// Length of the client preface, which precedes the frames (RFC 9113 §3.4).
pub(super) const PREFACE: usize = 24;
/// Length of a frame header.
pub(super) const HEAD: usize = 9;

/// Frame types (RFC 9113 §6).
pub(super) mod kind {
    pub(in crate::http2) const DATA: u8 = 0;
    pub(in crate::http2) const HEADERS: u8 = 1;
    pub(in crate::http2) const PRIORITY: u8 = 2;
    pub(in crate::http2) const RST_STREAM: u8 = 3;
    pub(in crate::http2) const SETTINGS: u8 = 4;
    pub(in crate::http2) const PING: u8 = 6;
    pub(in crate::http2) const GOAWAY: u8 = 7;
    pub(in crate::http2) const CONTINUATION: u8 = 9;
}

/// A frame header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    /// Length of the payload.
    pub(super) length: usize,
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
}

impl Frame {
    fn read(&[a, b, c, kind, flags, s @ ..]: &[u8; HEAD]) -> Self {
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        // The highest bit is reserved.
        Self { length, kind, flags, stream: u32::from_be_bytes(s) & 0x7fff_ffff }
    }
}

/// A part of a frame.
pub(super) enum Part<'a> {
    /// The complete header.
    Head,
    /// A piece of the payload, and whether it is the last.
    Payload(&'a [u8], bool),
}

/// Parser state of one direction.
pub(super) struct Frames {
    /// Remaining bytes of the frame's payload, or of the preface.
    left: usize,
    /// The partial header.
    head: [u8; HEAD],
    gathered: usize,
    frame: Option<Frame>,
}

impl Frames {
    /// A parser that skips the first `before` bytes.
    pub(super) fn behind(before: usize) -> Self {
        Self { left: before, head: [0; HEAD], gathered: 0, frame: None }
    }

    /// Parses `bytes`. Passes the header of each frame to `see`, followed by its payload in one or more
    /// pieces.
    pub(super) fn follow(&mut self, mut bytes: &[u8], mut see: impl FnMut(&Frame, Part<'_>)) {
        while !bytes.is_empty() {
            if self.left > 0 {
                let (payload, rest) = bytes.split_at(self.left.min(bytes.len()));
                self.left -= payload.len();
                bytes = rest;
                if let Some(frame) = &self.frame {
                    see(frame, Part::Payload(payload, self.left == 0));
                }
                continue;
            }
            let (head, rest) = bytes.split_at((HEAD - self.gathered).min(bytes.len()));
            self.head[self.gathered..self.gathered + head.len()].copy_from_slice(head);
            self.gathered += head.len();
            bytes = rest;
            if self.gathered == HEAD {
                self.gathered = 0;
                let frame = &*self.frame.insert(Frame::read(&self.head));
                self.left = frame.length;
                see(frame, Part::Head);
                if frame.length == 0 {
                    see(frame, Part::Payload(&[], true));
                }
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::http2) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let [_, a, b, c] = (payload.len() as u32).to_be_bytes();
        [&[a, b, c, kind, flags][..], &stream.to_be_bytes(), payload].concat()
    }

    #[test]
    fn frames_may_be_split_anywhere() {
        let mut bytes = vec![0; PREFACE];
        bytes.extend(frame(kind::SETTINGS, 0, 0, &[]));
        bytes.extend(frame(kind::DATA, 1, 0x8000_0003, &[0xff; 1000]));
        bytes.extend(frame(77, 0xff, 5, &[1, 2, 3]));
        for cut in [1, 7, 9, 24, 2000] {
            let (mut heads, mut payloads, mut ends) = (Vec::new(), Vec::new(), 0);
            let mut frames = Frames::behind(PREFACE);
            for piece in bytes.chunks(cut) {
                frames.follow(piece, |frame, part| match part {
                    Part::Head => heads.push(*frame),
                    Part::Payload(payload, last) => {
                        payloads.extend_from_slice(payload);
                        ends += usize::from(last);
                    }
                });
            }
            assert_eq!(ends, heads.len());
            let wanted = [(0, kind::SETTINGS, 0, 0), (1000, kind::DATA, 1, 3), (3, 77, 0xff, 5)]
                .map(|(length, kind, flags, stream)| Frame { length, kind, flags, stream });
            assert_eq!(heads, wanted, "split at {cut}");
            assert_eq!(payloads, [&[0xff; 1000][..], &[1, 2, 3]].concat());
        }
    }
}
