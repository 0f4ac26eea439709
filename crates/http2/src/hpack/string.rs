//! String literals (RFC 7541 §5.2).

use crate::hpack::{huffman, integer};

/// Decodes a string whose length has a prefix of `bits` bits, after the bit that marks Huffman coding, and appends it
/// to `out`.
#[inline]
pub fn decode(rest: &mut &[u8], bits: u32, out: &mut Vec<u8>) -> Option<()> {
    let is_packed = rest.first()? & 1 << bits != 0;
    let length = integer::decode(rest, bits)?;
    let (text, after) = rest.split_at_checked(length)?;
    *rest = after;
    if is_packed {
        return huffman::decode(text, out);
    }
    out.extend_from_slice(text);
    Some(())
}
