//! Writing the frames of a server.

use crate::error::Code;
use crate::frame::kind;
use crate::qpack;
use crate::settings::{self, Settings};
use crate::varint;

/// Appends the beginning of the server's control stream: its type, and SETTINGS. `max_head` is the largest field list of
/// a request that is accepted, in bytes.
pub fn control_stream(out: &mut Vec<u8>, max_head: usize) {
    varint::encode(out, 0);
    let mut payload = Vec::new();
    Settings { max_field_section_size: Some(max_head as u64) }.encode(&mut payload);
    frame(out, kind::SETTINGS, &payload);
    // A frame of a reserved type, to ensure that clients ignore unknown frames (RFC 9114 §7.2.8).
    frame(out, settings::GREASE, &[]);
}

/// Appends GOAWAY to the control stream: requests from the stream `first` on are not processed (RFC 9114 §5.2).
pub fn goaway(out: &mut Vec<u8>, first: u64) {
    let mut payload = Vec::new();
    varint::encode(&mut payload, first);
    frame(out, kind::GOAWAY, &payload);
}

/// Appends a head, or trailers, whose fields `write` writes as a field block with the functions of
/// `phalanx_http2::encoder`.
pub fn head(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let mut block = Vec::new();
    write(&mut block);
    head_of(out, &block);
}

/// Like [`head`], with the fields of a prepared field block.
///
/// # Panics
/// If the block was not written by `phalanx_http2::encoder`.
pub fn head_of(out: &mut Vec<u8>, block: &[u8]) {
    // The length precedes the section and is only known afterwards, so it is inserted; it usually needs two bytes.
    let start = out.len();
    let converted = qpack::encoder::convert(block, out);
    assert!(converted.is_some(), "a field block that refers to a dynamic table");
    let mut header = Vec::with_capacity(9);
    varint::encode(&mut header, kind::HEADERS);
    varint::encode(&mut header, (out.len() - start) as u64);
    out.splice(start..start, header);
}

/// Appends the header of a frame with `length` bytes of content.
pub fn content(out: &mut Vec<u8>, length: u64) {
    varint::encode(out, kind::DATA);
    varint::encode(out, length);
}

fn frame(out: &mut Vec<u8>, kind: u64, payload: &[u8]) {
    varint::encode(out, kind);
    varint::encode(out, payload.len() as u64);
    out.extend_from_slice(payload);
}

/// The error code as QUIC sends it.
impl From<Code> for u64 {
    fn from(code: Code) -> Self {
        code.0.into()
    }
}
