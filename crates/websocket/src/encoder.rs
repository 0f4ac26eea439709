//! Encoder: writes a server's frames. Each is a whole message, without a mask.

use crate::code::Code;

/// The bit of the last frame of a message.
pub(crate) const FIN: u8 = 0x80;
pub(crate) const CONTINUATION: u8 = 0;
pub(crate) const TEXT: u8 = 1;
pub(crate) const BINARY: u8 = 2;
pub(crate) const CLOSE: u8 = 8;
pub(crate) const PING: u8 = 9;
pub(crate) const PONG: u8 = 10;

/// Maximum payload of a control frame, in bytes.
pub(crate) const MAX_CONTROL: usize = 125;

/// Appends the header of a binary message of `length` bytes, which must follow.
///
/// ```
/// let mut bytes = Vec::new();
/// phalanx_websocket::binary(3, &mut bytes);
/// bytes.extend_from_slice(b"abc");
/// assert_eq!(bytes, b"\x82\x03abc");
/// ```
pub fn binary(length: usize, out: &mut Vec<u8>) {
    header(BINARY, length, out);
}

/// Appends a close frame. No frame may follow it.
pub fn close(code: Code, out: &mut Vec<u8>) {
    control(CLOSE, &(code as u16).to_be_bytes(), out);
}

/// Appends a control frame; the payload has at most [`MAX_CONTROL`] bytes.
pub(crate) fn control(opcode: u8, payload: &[u8], out: &mut Vec<u8>) {
    debug_assert!(payload.len() <= MAX_CONTROL);
    header(opcode, payload.len(), out);
    out.extend_from_slice(payload);
}

fn header(opcode: u8, length: usize, out: &mut Vec<u8>) {
    out.push(FIN | opcode);
    match length {
        0..126 => out.push(length as u8),
        126..0x1_0000 => {
            out.push(126);
            out.extend_from_slice(&(length as u16).to_be_bytes());
        }
        _ => {
            out.push(127);
            out.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
}
