//! Decoder: turns the frames of a client, received in pieces of any length, into the bytes they carry.

use crate::code::Code;
use crate::encoder::{
    BINARY, CLOSE, CONTINUATION, FIN, MAX_CONTROL, PING, PONG, TEXT, close, control,
};

/// A violation of the protocol; the connection must be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct DecodeError {
    /// The close code sent to the client.
    pub code: Code,
    /// Description of the violation.
    pub message: &'static str,
}

/// Maximum header length of a client's frame: two bytes, the length, the mask.
const MAX_HEADER: usize = 2 + 8 + 4;

/// Decoder of a client's frames. It buffers at most one control frame.
#[derive(Debug, Default)]
pub struct Decoder {
    /// The part of a header received so far.
    header: [u8; MAX_HEADER],
    header_len: usize,
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
    remaining: u64,
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
    /// # Ok::<(), phalanx_websocket::DecodeError>(())
    /// ```
    ///
    /// # Errors
    /// [`DecodeError`]: earlier payload is in `data`, and the close frame with the reason in `answers`.
    pub fn feed(
        &mut self,
        raw: &[u8],
        data: &mut Vec<u8>,
        answers: &mut Vec<u8>,
    ) -> Result<(), DecodeError> {
        let result = self.decode(raw, data, answers);
        if let Err(error) = result {
            self.closed = true;
            close(error.code, answers);
        }
        result
    }

    fn decode(
        &mut self,
        mut raw: &[u8],
        data: &mut Vec<u8>,
        answers: &mut Vec<u8>,
    ) -> Result<(), DecodeError> {
        while !self.closed {
            let frame = match &mut self.frame {
                Some(frame) => frame,
                None => match self.read_header(&mut raw)? {
                    Some(frame) => self.frame.insert(frame),
                    None => break,
                },
            };
            let max = usize::try_from(frame.remaining).unwrap_or(usize::MAX);
            let (piece, rest) = raw.split_at(raw.len().min(max));
            raw = rest;
            let to = if frame.opcode < CLOSE { &mut *data } else { &mut self.control };
            unmask(piece, &mut frame.mask, to);
            frame.remaining -= piece.len() as u64;
            if frame.remaining > 0 {
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
    fn read_header(&mut self, raw: &mut &[u8]) -> Result<Option<Frame>, DecodeError> {
        loop {
            // The first two bytes determine the length.
            let length = match self.header_len {
                0 | 1 => 2,
                _ => header_length(self.header[1]),
            };
            if self.header_len == length && length > 2 {
                break;
            }
            let (piece, rest) = raw.split_at(raw.len().min(length - self.header_len));
            self.header[self.header_len..][..piece.len()].copy_from_slice(piece);
            self.header_len += piece.len();
            *raw = rest;
            if self.header_len < length {
                return Ok(None);
            }
            if length == 2 {
                self.check(self.header[0], self.header[1])?;
            }
        }
        let bytes = &self.header[2..self.header_len];
        let (length, mask) = bytes.split_at(bytes.len() - 4);
        let mask = [mask[0], mask[1], mask[2], mask[3]];
        let remaining = match *length {
            [] => u64::from(self.header[1] & 0x7f),
            [a, b] => u64::from(u16::from_be_bytes([a, b])),
            _ => length.iter().fold(0, |all, byte| all << 8 | u64::from(*byte)),
        };
        let min = match length.len() {
            0 => 0,
            2 => 126,
            _ => 0x1_0000,
        };
        if remaining < min || remaining > i64::MAX as u64 {
            return Err(protocol_error("a frame's length is not encoded in the fewest bytes"));
        }
        self.header_len = 0;
        let opcode = self.header[0] & 0x0f;
        if opcode < CLOSE {
            self.in_message = self.header[0] & FIN == 0;
        }
        Ok(Some(Frame { opcode, remaining, mask }))
    }

    /// Checks the first two bytes of a frame.
    fn check(&self, first: u8, second: u8) -> Result<(), DecodeError> {
        if first & 0x70 != 0 {
            return Err(protocol_error("a frame uses an extension, but none was negotiated"));
        }
        if second & 0x80 == 0 {
            return Err(protocol_error("a client's frame is not masked"));
        }
        let (opcode, is_last) = (first & 0x0f, first & FIN != 0);
        match opcode {
            CONTINUATION if !self.in_message => {
                Err(protocol_error("a continuation frame without a message"))
            }
            BINARY | TEXT if self.in_message => {
                Err(protocol_error("a message starts before the previous one has ended"))
            }
            TEXT => {
                let message = "text messages are not accepted, only binary ones";
                Err(DecodeError { code: Code::UnsupportedData, message })
            }
            CONTINUATION | BINARY => Ok(()),
            CLOSE | PING | PONG if !is_last => Err(protocol_error("a control frame is fragmented")),
            CLOSE | PING | PONG if usize::from(second & 0x7f) > MAX_CONTROL => {
                Err(protocol_error("a control frame is longer than 125 bytes"))
            }
            CLOSE | PING | PONG => Ok(()),
            _ => Err(protocol_error("a frame has an unknown opcode")),
        }
    }

    /// Handles a complete control frame.
    fn answer(
        &mut self,
        opcode: u8,
        payload: &[u8],
        answers: &mut Vec<u8>,
    ) -> Result<(), DecodeError> {
        match opcode {
            PING => control(PONG, payload, answers),
            CLOSE => {
                let code = match *payload {
                    [] => Ok(Code::Normal as u16),
                    [a, b, ref reason @ ..] => match u16::from_be_bytes([a, b]) {
                        code @ (1000..=1003 | 1007..=1014 | 3000..=4999)
                            if std::str::from_utf8(reason).is_ok() =>
                        {
                            Ok(code)
                        }
                        _ => Err(protocol_error("invalid close code or non-UTF-8 reason")),
                    },
                    [_] => Err(protocol_error("a close frame has an incomplete code")),
                };
                control(CLOSE, &code?.to_be_bytes(), answers);
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

fn protocol_error(message: &'static str) -> DecodeError {
    DecodeError { code: Code::ProtocolError, message }
}

/// Appends the unmasked bytes.
fn unmask(piece: &[u8], mask: &mut [u8; 4], to: &mut Vec<u8>) {
    let read_header = to.len();
    to.extend_from_slice(piece);
    let (words, rest) = to[read_header..].as_chunks_mut::<8>();
    let doubled_mask = u64::from_ne_bytes([
        mask[0], mask[1], mask[2], mask[3], mask[0], mask[1], mask[2], mask[3],
    ]);
    for word in words {
        *word = (u64::from_ne_bytes(*word) ^ doubled_mask).to_ne_bytes();
    }
    for (byte, mask) in rest.iter_mut().zip(mask.iter().cycle()) {
        *byte ^= mask;
    }
    mask.rotate_left(piece.len() % 4);
}
