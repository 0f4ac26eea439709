//! Decoder: turns the frames of a client, received in pieces of any length, into the bytes they carry.

use crate::code::Code;
use crate::encoder::{
    BINARY, CLOSE, CONTINUATION, FIN, MOST_CONTROL, PING, PONG, TEXT, close, control,
};

/// A violation of the protocol; the connection must be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct Broken {
    /// The close code sent to the client.
    pub code: Code,
    /// Description of the violation.
    pub what: &'static str,
}

/// Maximum header length of a client's frame: two bytes, the length, the mask.
const MOST_HEADER: usize = 2 + 8 + 4;

/// Decoder of a client's frames. It buffers at most one control frame.
#[derive(Debug, Default)]
pub struct Decoder {
    /// The part of a header received so far.
    header: [u8; MOST_HEADER],
    has: usize,
    /// The current frame, once its header is complete.
    frame: Option<Frame>,
    /// Whether the next data frame continues a message.
    in_message: bool,
    /// The payload of the current control frame.
    control: Vec<u8>,
    closed: bool,
}

#[derive(Clone, Copy, Debug)]
struct Frame {
    opcode: u8,
    left: u64,
    /// The mask, rotated to the next byte.
    mask: [u8; 4],
}

impl Decoder {
    /// A decoder for the bytes after the upgrade.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the client has closed the WebSocket, or violated the protocol.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Decodes received bytes. Appends the payload of binary messages to `data`, and replies (pongs, and a
    /// close frame at the end) to `answers`. Replies are at most a fifth longer than `raw`.
    ///
    /// ```
    /// use phalanx_websocket::Decoder;
    ///
    /// let (mut decoder, mut data, mut answers) = (Decoder::new(), Vec::new(), Vec::new());
    /// // A message in two frames with a ping between them, the mask all zero.
    /// let raw = b"\x02\x82\0\0\0\0ab\x89\x80\0\0\0\0\x80\x81\0\0\0\0c";
    /// decoder.feed(raw, &mut data, &mut answers)?;
    /// assert_eq!((&data[..], &answers[..]), (&b"abc"[..], &b"\x8a\x00"[..]));
    /// # Ok::<(), phalanx_websocket::Broken>(())
    /// ```
    ///
    /// # Errors
    /// [`Broken`]: earlier payload is in `data`, and the close frame with the reason in `answers`.
    pub fn feed(
        &mut self,
        raw: &[u8],
        data: &mut Vec<u8>,
        answers: &mut Vec<u8>,
    ) -> Result<(), Broken> {
        let fed = self.take(raw, data, answers);
        if let Err(broken) = fed {
            self.closed = true;
            close(broken.code, answers);
        }
        fed
    }

    fn take(
        &mut self,
        mut raw: &[u8],
        data: &mut Vec<u8>,
        answers: &mut Vec<u8>,
    ) -> Result<(), Broken> {
        while !self.closed {
            let frame = match &mut self.frame {
                Some(frame) => frame,
                None => match self.begin(&mut raw)? {
                    Some(frame) => self.frame.insert(frame),
                    None => break,
                },
            };
            let most = usize::try_from(frame.left).unwrap_or(usize::MAX);
            let (piece, rest) = raw.split_at(raw.len().min(most));
            raw = rest;
            let to = if frame.opcode < CLOSE { &mut *data } else { &mut self.control };
            unmask(piece, &mut frame.mask, to);
            frame.left -= piece.len() as u64;
            if frame.left > 0 {
                break;
            }
            let opcode = frame.opcode;
            self.frame = None;
            if opcode >= CLOSE {
                let payload = std::mem::take(&mut self.control);
                self.answer(opcode, &payload, answers)?;
            }
        }
        Ok(())
    }

    /// Reads a frame's header; `None` until it is complete.
    fn begin(&mut self, raw: &mut &[u8]) -> Result<Option<Frame>, Broken> {
        loop {
            // The first two bytes determine the length.
            let length = match self.has {
                0 | 1 => 2,
                _ => header_length(self.header[1]),
            };
            if self.has == length && length > 2 {
                break;
            }
            let (piece, rest) = raw.split_at(raw.len().min(length - self.has));
            self.header[self.has..][..piece.len()].copy_from_slice(piece);
            self.has += piece.len();
            *raw = rest;
            if self.has < length {
                return Ok(None);
            }
            if length == 2 {
                self.check(self.header[0], self.header[1])?;
            }
        }
        let bytes = &self.header[2..self.has];
        let (length, mask) = bytes.split_at(bytes.len() - 4);
        let mask = [mask[0], mask[1], mask[2], mask[3]];
        let left = match *length {
            [] => u64::from(self.header[1] & 0x7f),
            [a, b] => u64::from(u16::from_be_bytes([a, b])),
            _ => length.iter().fold(0, |all, byte| all << 8 | u64::from(*byte)),
        };
        let least = match length.len() {
            0 => 0,
            2 => 126,
            _ => 0x1_0000,
        };
        if left < least || left > i64::MAX as u64 {
            return Err(wrong("a frame's length is not encoded in the fewest bytes"));
        }
        self.has = 0;
        let opcode = self.header[0] & 0x0f;
        if opcode < CLOSE {
            self.in_message = self.header[0] & FIN == 0;
        }
        Ok(Some(Frame { opcode, left, mask }))
    }

    /// Checks the first two bytes of a frame.
    fn check(&self, first: u8, second: u8) -> Result<(), Broken> {
        if first & 0x70 != 0 {
            return Err(wrong("a frame uses an extension, but none was negotiated"));
        }
        if second & 0x80 == 0 {
            return Err(wrong("a client's frame is not masked"));
        }
        let (opcode, is_last) = (first & 0x0f, first & FIN != 0);
        match opcode {
            CONTINUATION if !self.in_message => {
                Err(wrong("a continuation frame without a message"))
            }
            BINARY | TEXT if self.in_message => {
                Err(wrong("a message starts before the previous one has ended"))
            }
            TEXT => {
                let what = "text messages are not accepted, only binary ones";
                Err(Broken { code: Code::UnsupportedData, what })
            }
            CONTINUATION | BINARY => Ok(()),
            CLOSE | PING | PONG if !is_last => Err(wrong("a control frame is fragmented")),
            CLOSE | PING | PONG if usize::from(second & 0x7f) > MOST_CONTROL => {
                Err(wrong("a control frame is longer than 125 bytes"))
            }
            CLOSE | PING | PONG => Ok(()),
            _ => Err(wrong("a frame has an unknown opcode")),
        }
    }

    /// Handles a complete control frame.
    fn answer(&mut self, opcode: u8, payload: &[u8], answers: &mut Vec<u8>) -> Result<(), Broken> {
        match opcode {
            PING => control(PONG, payload, answers),
            CLOSE => {
                let said = match *payload {
                    [] => Ok(Code::Normal as u16),
                    [a, b, ref why @ ..] => match u16::from_be_bytes([a, b]) {
                        code @ (1000..=1003 | 1007..=1014 | 3000..=4999)
                            if std::str::from_utf8(why).is_ok() =>
                        {
                            Ok(code)
                        }
                        _ => Err(wrong("invalid close code or non-UTF-8 reason")),
                    },
                    [_] => Err(wrong("a close frame has an incomplete code")),
                };
                control(CLOSE, &said?.to_be_bytes(), answers);
                self.closed = true;
            }
            _ => (),
        }
        Ok(())
    }
}

/// The header length of a frame with this second byte.
fn header_length(second: u8) -> usize {
    2 + 4
        + match second & 0x7f {
            126 => 2,
            127 => 8,
            _ => 0,
        }
}

fn wrong(what: &'static str) -> Broken {
    Broken { code: Code::ProtocolError, what }
}

/// Appends the unmasked bytes.
fn unmask(piece: &[u8], mask: &mut [u8; 4], to: &mut Vec<u8>) {
    let begin = to.len();
    to.extend_from_slice(piece);
    let (words, rest) = to[begin..].as_chunks_mut::<8>();
    let twice = u64::from_ne_bytes([
        mask[0], mask[1], mask[2], mask[3], mask[0], mask[1], mask[2], mask[3],
    ]);
    for word in words {
        *word = (u64::from_ne_bytes(*word) ^ twice).to_ne_bytes();
    }
    for (byte, mask) in rest.iter_mut().zip(mask.iter().cycle()) {
        *byte ^= mask;
    }
    mask.rotate_left(piece.len() % 4);
}
