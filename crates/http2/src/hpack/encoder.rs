//! Writing field blocks.
//!
//! All functions append to a block. They reference the static table and use literals without indexing, so
//! blocks may be prepared once and appended to any response of any connection.

use crate::hpack::{huffman, integer, static_table};

/// A literal without indexing (RFC 7541 §6.2.2), whose name index has four bits in the first byte.
const WITHOUT_INDEXING: u8 = 0x00;
/// An indexed field (RFC 7541 §6.1).
const INDEXED: u8 = 0x80;
/// Index of `:status` in the static table.
const STATUS_INDEX: usize = 8;

/// Appends `:status`, which precedes all other fields. Only the three lowest decimal digits are used.
#[inline]
pub fn status(block: &mut Vec<u8>, code: u16) {
    let index = match code {
        200 => 8,
        204 => 9,
        206 => 10,
        304 => 11,
        400 => 12,
        404 => 13,
        500 => 14,
        _ => {
            let digit = |power: u16| b'0' + (code / power % 10) as u8;
            block.extend_from_slice(&[STATUS_INDEX as u8, 3, digit(100), digit(10), digit(1)]);
            return;
        }
    };
    block.push(INDEXED | index);
}

/// Appends a field. The name may be in any case. Name and value must be valid (RFC 9113 §8.2.1).
///
/// ```
/// let mut block = Vec::new();
/// phalanx_http2::encoder::field(&mut block, b"Cache-Control", b"no-cache");
/// assert_eq!(block, b"\x0f\x09\x86\xa8\xeb\x10\x64\x9c\xbf");
/// ```
pub fn field(block: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    let mut lower = [0; 32];
    let boxed;
    let name = match lower.get_mut(..name.len()) {
        Some(lower) => {
            lower.copy_from_slice(name);
            lower.make_ascii_lowercase();
            &*lower
        }
        None => {
            boxed = name.to_ascii_lowercase();
            &boxed[..]
        }
    };
    if let Some(index) = static_table::find(name, value) {
        integer::encode(block, INDEXED, 7, index);
        return;
    }
    match static_table::find_name(name) {
        Some(index) => integer::encode(block, WITHOUT_INDEXING, 4, index),
        None => {
            block.push(WITHOUT_INDEXING);
            text(block, name);
        }
    }
    text(block, value);
}

/// Appends a string literal (RFC 7541 §5.2), in the shorter form.
fn text(block: &mut Vec<u8>, text: &[u8]) {
    let packed = huffman::encoded_length(text);
    if packed < text.len() {
        integer::encode(block, 0x80, 7, packed);
        huffman::encode(text, block);
    } else {
        integer::encode(block, 0, 7, text.len());
        block.extend_from_slice(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hpack::decoder::decode_block;

    fn decode(block: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
        decode_block(block).unwrap()
    }

    #[test]
    fn every_status_is_encoded() {
        for code in 100..=999 {
            let mut block = Vec::new();
            status(&mut block, code);
            assert_eq!(decode(&block), [(b":status".to_vec(), code.to_string().into_bytes())]);
        }
    }

    #[test]
    fn fields_read_back() {
        let long = "x".repeat(300);
        let fields = [("server", "phalanx"), ("x-own", "a: b"), ("empty", ""), (&long, &long)];
        let mut block = Vec::new();
        fields
            .iter()
            .for_each(|(name, value)| field(&mut block, name.as_bytes(), value.as_bytes()));
        let expected =
            fields.map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()));
        assert_eq!(decode(&block), expected);
    }

    #[test]
    fn repeated_blocks_are_equal() {
        let mut block = Vec::new();
        for _ in 0..2 {
            field(&mut block, b"etag", b"\"1\"");
        }
        let (first, second) = block.split_at(block.len() / 2);
        assert_eq!(first, second, "no state between fields");
    }
}
