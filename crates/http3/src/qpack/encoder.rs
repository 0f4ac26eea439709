//! Encoder of field sections: converts HTTP/2 field blocks to QPACK.
//!
//! Response heads are composed of prepared HTTP/2 field blocks, whose encoder uses only literals and the static table.
//! QPACK encodes strings as HPACK does, so only the first bytes of a field change; the rest is copied.

use std::sync::LazyLock;

use phalanx_http2::primitives::{integer, static_table as hpack};

use crate::qpack::static_table;

/// An indexed static field (RFC 9204 §4.5.2).
const INDEXED: u8 = 0xc0;
/// A literal with the name of a static entry (RFC 9204 §4.5.4).
const STATIC_NAME: u8 = 0x50;
/// A literal with its own name (RFC 9204 §4.5.6).
const OWN_NAME: u8 = 0x20;
/// The bit of [`OWN_NAME`] that marks a Huffman-coded name.
const PACKED_NAME: u8 = 0x08;

/// An entry of HPACK's static table, with its QPACK indices.
#[derive(Clone, Copy)]
struct Entry {
    /// Name and value.
    hpack: (&'static [u8], &'static [u8]),
    /// QPACK index of the same name and value.
    field: Option<usize>,
    /// QPACK index of an entry with the same name.
    name: Option<usize>,
}

/// In the order of HPACK's table.
static ENTRIES: LazyLock<Vec<Entry>> = LazyLock::new(|| {
    let entry = |(name, value)| Entry {
        hpack: (name, value),
        field: static_table::find(name, value),
        name: static_table::find_name(name),
    };
    (1..).map_while(hpack::get).map(entry).collect()
});

/// The entry at a one-based HPACK index.
fn entry(index: usize) -> Option<&'static Entry> {
    ENTRIES.get(index.checked_sub(1)?)
}

/// Appends an HTTP/2 field block as a QPACK field section. Returns `None` if the block is invalid or refers to a dynamic
/// table, which the blocks of `phalanx_http2::encoder` do not.
pub(crate) fn convert(mut block: &[u8], out: &mut Vec<u8>) -> Option<()> {
    // Required Insert Count and base.
    out.extend_from_slice(&[0, 0]);
    while let Some(&first) = block.first() {
        if first >= 0x80 {
            let entry = entry(integer::decode(&mut block, 7)?)?;
            match entry.field {
                Some(index) => integer::encode(out, INDEXED, 6, index),
                None => {
                    name(out, entry);
                    push_literal(out, 7, 0, entry.hpack.1);
                }
            }
            continue;
        }
        // A literal: without indexing, never indexed, or with incremental indexing. All are equal within one block.
        let bits = if first >= 0x40 { 6 } else { 4 };
        (!(0x20..0x40).contains(&first)).then_some(())?;
        match integer::decode(&mut block, bits)? {
            0 => {
                let (is_packed, text) = string(&mut block)?;
                let packed = if is_packed { PACKED_NAME } else { 0 };
                push_literal(out, 3, OWN_NAME | packed, text);
            }
            index => name(out, entry(index)?),
        }
        let complete = block;
        string(&mut block)?;
        out.extend_from_slice(&complete[..complete.len() - block.len()]);
    }
    Some(())
}

/// Appends the name of a literal: the index of the entry's name, or the name itself.
fn name(out: &mut Vec<u8>, entry: &Entry) {
    match entry.name {
        Some(index) => integer::encode(out, STATIC_NAME, 4, index),
        None => push_literal(out, 3, OWN_NAME, entry.hpack.0),
    }
}

/// Appends a string literal. The length is an integer with a `bits`-bit prefix in the byte `first`.
fn push_literal(out: &mut Vec<u8>, bits: u32, first: u8, text: &[u8]) {
    integer::encode(out, first, bits, text.len());
    out.extend_from_slice(text);
}

/// Takes an HPACK string from the front of `block`. Returns whether it is Huffman-coded, and its bytes.
fn string<'a>(block: &mut &'a [u8]) -> Option<(bool, &'a [u8])> {
    let is_packed = block.first()? & 0x80 != 0;
    let length = integer::decode(block, 7)?;
    let (text, rest) = block.split_at_checked(length)?;
    *block = rest;
    Some((is_packed, text))
}

#[cfg(test)]
mod tests {
    use phalanx_http2::{decode_block, encoder};

    use super::*;
    use crate::qpack::decoder;

    fn assert_converted(block: &[u8]) {
        let mut section = Vec::new();
        assert_eq!(convert(block, &mut section), Some(()));
        assert_eq!(decoder::decode_block(&section).unwrap(), decode_block(block).unwrap());
    }

    #[test]
    fn every_status_is_converted() {
        for code in 100..=999 {
            let mut block = Vec::new();
            encoder::status(&mut block, code);
            assert_converted(&block);
        }
    }

    #[test]
    fn every_entry_and_length_is_converted() {
        let mut block = Vec::new();
        for index in 1..=61 {
            block.push(0x80 | index);
            // The name alone, with a value of its own.
            integer::encode(&mut block, 0x40, 6, usize::from(index));
            block.extend_from_slice(b"\x01v");
        }
        for length in 1..300 {
            for byte in ['a', '#'] {
                let text = byte.to_string().repeat(length);
                encoder::field(&mut block, text.as_bytes(), text.as_bytes());
            }
        }
        assert_converted(&block);
        assert_converted(b"");
    }

    #[test]
    fn invalid_blocks_are_rejected() {
        for block in [
            &b"\x80"[..],
            b"\xbe",
            b"\x3e",
            b"\0",
            b"\x04",
            b"\0\x01a",
            b"\0\x01a\x02b",
            b"\x04\xff",
        ] {
            assert_eq!(convert(block, &mut Vec::new()), None, "{block:?}");
        }
    }
}
