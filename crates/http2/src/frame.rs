//! Frame headers (RFC 9113 §4.1).

/// Length of a frame header, in bytes.
pub(crate) const HEADER_LENGTH: usize = 9;

/// Frame types (RFC 9113 §6).
pub(crate) mod kind {
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
}

/// Frame flags.
pub(crate) mod flag {
    pub(crate) const ACK: u8 = 1;
    pub(crate) const END_STREAM: u8 = 1;
    pub(crate) const END_HEADERS: u8 = 4;
    pub(crate) const PADDED: u8 = 8;
    pub(crate) const PRIORITY: u8 = 0x20;
}

/// A frame header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Length of the payload.
    pub(crate) length: usize,
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
}

impl Frame {
    pub(crate) fn parse(&[a, b, c, kind, flags, s @ ..]: &[u8; HEADER_LENGTH]) -> Self {
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        // The highest bit is reserved.
        Self { length, kind, flags, stream: u32::from_be_bytes(s) & 0x7fff_ffff }
    }

    /// Whether a flag is set.
    pub(crate) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// The header's bytes.
    pub(crate) fn bytes(self) -> [u8; HEADER_LENGTH] {
        let [_, a, b, c] = (self.length as u32).to_be_bytes();
        let [s, t, u, v] = self.stream.to_be_bytes();
        [a, b, c, self.kind, self.flags, s, t, u, v]
    }
}

/// Appends a frame.
#[inline]
pub(crate) fn write(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    out.extend_from_slice(&Frame { length: payload.len(), kind, flags, stream }.bytes());
    out.extend_from_slice(payload);
}

/// Removes the padding of a DATA or HEADERS frame. Returns `None` if it is longer than the payload (RFC 9113
/// §6.1).
pub(crate) fn without_padding<'a>(frame: &Frame, payload: &'a [u8]) -> Option<&'a [u8]> {
    if !frame.has(flag::PADDED) {
        return Some(payload);
    }
    let (padding, rest) = payload.split_first()?;
    rest.get(..rest.len().checked_sub(usize::from(*padding))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_round_trip() {
        let frame = Frame { length: 0x123456, kind: 7, flags: 0xa5, stream: 0x7fff_fffe };
        assert_eq!(Frame::parse(&frame.bytes()), frame);
        let mut reserved = frame.bytes();
        reserved[5] |= 0x80;
        assert_eq!(Frame::parse(&reserved), frame, "the reserved bit is ignored");
    }

    #[test]
    fn padding_is_removed() {
        type Case = (u8, &'static [u8], Option<&'static [u8]>);
        // (flags, payload, content)
        let table: [Case; 6] = [
            (0, b"abc", Some(b"abc")),
            (flag::PADDED, b"\x02abc", Some(b"a")),
            (flag::PADDED, b"\x03abc", Some(b"")),
            (flag::PADDED, b"\x04abc", None),
            (flag::PADDED, b"\x00", Some(b"")),
            (flag::PADDED, b"", None),
        ];
        for (flags, payload, content) in table {
            let frame = Frame { length: payload.len(), kind: kind::DATA, flags, stream: 1 };
            assert_eq!(without_padding(&frame, payload), content, "{payload:?}");
        }
    }
}
