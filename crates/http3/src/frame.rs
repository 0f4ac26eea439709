//! The format of frames (RFC 9114 §7).

use crate::error::{Code, Error};
use crate::varint;

/// Types of frames (RFC 9114 §7.2).
pub(crate) mod kind {
    pub(crate) const DATA: u64 = 0x0;
    pub(crate) const HEADERS: u64 = 0x1;
    pub(crate) const CANCEL_PUSH: u64 = 0x3;
    pub(crate) const SETTINGS: u64 = 0x4;
    pub(crate) const PUSH_PROMISE: u64 = 0x5;
    pub(crate) const GOAWAY: u64 = 0x7;
    pub(crate) const MAX_PUSH_ID: u64 = 0xd;
}

/// Whether a frame of this type is an error on every stream: HTTP/2 types that HTTP/3 does not have (RFC 9114 §7.2.8).
pub(crate) fn is_reserved(kind: u64) -> bool {
    matches!(kind, 0x2 | 0x6 | 0x8 | 0x9)
}

/// The header of a frame: type and payload length, possibly incomplete.
#[derive(Debug, Default)]
pub(crate) struct FrameHeader {
    bytes: [u8; 2 * varint::MAX_BYTES],
    held: usize,
}

impl FrameHeader {
    /// Takes bytes from `input` up to the end of the header. Returns the type and the length once it is complete.
    pub(crate) fn receive(&mut self, input: &mut &[u8]) -> Option<(u64, u64)> {
        loop {
            let mut rest = &self.bytes[..self.held];
            if let (Some(kind), Some(length)) =
                (varint::decode(&mut rest), varint::decode(&mut rest))
            {
                self.held = 0;
                return Some((kind, length));
            }
            let (first, after) = input.split_first()?;
            self.bytes[self.held] = *first;
            self.held += 1;
            *input = after;
        }
    }

    /// Whether the header has begun and is not complete.
    pub(crate) fn is_partial(&self) -> bool {
        self.held > 0
    }
}

/// The payload of a frame that is processed as a whole.
#[derive(Debug, Default)]
pub(crate) struct Payload {
    bytes: Vec<u8>,
    remaining: usize,
}

impl Payload {
    /// A payload of `length` bytes.
    ///
    /// # Errors
    /// If `length` exceeds `limit`.
    pub(crate) fn new(length: u64, limit: usize) -> Result<Self, Error> {
        match usize::try_from(length) {
            Ok(remaining) if remaining <= limit => Ok(Self { bytes: Vec::new(), remaining }),
            _ => Err(Error::Connection(Code::EXCESSIVE_LOAD)),
        }
    }

    /// Takes bytes from `input`. Returns how many, and the payload once it is complete. A payload that is complete in
    /// `input` is not copied.
    pub(crate) fn receive<'a>(&'a mut self, input: &'a [u8]) -> (usize, Option<&'a [u8]>) {
        let now = &input[..self.remaining.min(input.len())];
        self.remaining -= now.len();
        if self.remaining == 0 && self.bytes.is_empty() {
            return (now.len(), Some(now));
        }
        self.bytes.extend_from_slice(now);
        (now.len(), (self.remaining == 0).then_some(&self.bytes[..]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_arrive_in_pieces() {
        let mut header = FrameHeader::default();
        for byte in [0x40, 0x01, 0x80, 0, 0x40] {
            assert_eq!(header.receive(&mut &[byte][..]), None);
            assert!(header.is_partial());
        }
        let mut input = &[0, 7, 9][..];
        assert_eq!((header.receive(&mut input), input), (Some((1, 0x4000)), &[7, 9][..]));
        assert!(!header.is_partial());
        assert_eq!(header.receive(&mut input), Some((7, 9)));
    }

    #[test]
    fn payloads_have_a_limit() {
        assert!(Payload::new(8, 8).is_ok());
        assert_eq!(Payload::new(9, 8).unwrap_err(), Error::Connection(Code::EXCESSIVE_LOAD));
        let mut payload = Payload::new(4, 8).unwrap();
        assert_eq!(payload.receive(b"ab"), (2, None));
        assert_eq!(payload.receive(b"cdef"), (2, Some(&b"abcd"[..])));
        assert_eq!(Payload::new(0, 0).unwrap().receive(b"a"), (0, Some(&b""[..])));
    }
}
