//! Finds fragments in request paths, in compressed field blocks (RFC 7541).
//!
//! `:path` must not contain `#` (RFC 9113 §8.3.1); such a request is malformed. The crate `http`, whose types
//! h2 uses for requests, silently removes a fragment. It must therefore be found in the bytes received by h2.
//!
//! Only lengths, names and that one character matter; text is not decoded. The dynamic table contains sizes
//! only, and whether an entry is such a path.

use std::collections::VecDeque;

use crate::http2::huffman;

/// Initial size of the dynamic table (RFC 9113 §6.5.2). The server does not change it.
const TABLE: usize = 4096;
/// Overhead of an entry (RFC 7541 §4.1).
const OVERHEAD: usize = 32;
/// Lengths of the names in the static table (RFC 7541 §A).
const STATIC: [u8; 61] = [
    10, 7, 7, 5, 5, 7, 7, 7, 7, 7, 7, 7, 7, 7, 14, 15, 15, 13, 6, 27, 3, 5, 13, 13, 19, 16, 16, 14,
    16, 13, 12, 6, 4, 4, 6, 7, 4, 4, 8, 17, 13, 8, 19, 13, 4, 8, 12, 18, 19, 5, 7, 7, 11, 6, 10,
    25, 17, 10, 4, 3, 16,
];
/// The entries of the static table with the name `:path`.
const PATHS: std::ops::RangeInclusive<usize> = 4..=5;

/// A field name.
#[derive(Clone, Copy)]
struct Name {
    length: usize,
    is_path: bool,
}

/// An entry of the dynamic table.
#[derive(Clone, Copy)]
struct Entry {
    name: Name,
    size: usize,
    /// A path with a fragment.
    fragment: bool,
}

/// The decoder state of a connection.
pub(super) struct Fields {
    /// Newest first.
    entries: VecDeque<Entry>,
    size: usize,
    max: usize,
}

impl Fields {
    pub(super) fn new() -> Self {
        Self { entries: VecDeque::new(), size: 0, max: TABLE }
    }

    /// Whether a path in a complete block has a fragment. Returns `None` for an invalid block, for which h2
    /// ends the connection.
    pub(super) fn has_fragment(&mut self, block: &[u8]) -> Option<bool> {
        let mut rest = block;
        let mut found = false;
        while let Some(&first) = rest.first() {
            found |= match first {
                0x80.. => {
                    let index = number(&mut rest, 7)?;
                    match index.checked_sub(STATIC.len() + 1) {
                        Some(index) => self.entries.get(index)?.fragment,
                        None => false,
                    }
                }
                0x40.. => {
                    let (name, value) = self.literal(&mut rest, 6)?;
                    let fragment = name.is_path && value.hash;
                    self.insert(Entry {
                        name,
                        size: name.length + value.length + OVERHEAD,
                        fragment,
                    });
                    fragment
                }
                0x20.. => {
                    self.max = number(&mut rest, 5).filter(|max| *max <= TABLE)?;
                    self.shrink(self.max);
                    false
                }
                _ => {
                    let (name, value) = self.literal(&mut rest, 4)?;
                    name.is_path && value.hash
                }
            };
        }
        Some(found)
    }

    /// Decodes a literal field, whose name may be in a table.
    fn literal(&self, rest: &mut &[u8], bits: u32) -> Option<(Name, Text)> {
        let name = match number(rest, bits)? {
            0 => {
                let before = *rest;
                let name = Text::read(rest)?;
                // `:path`, as plain text and in Huffman code.
                let is_path = before.starts_with(b"\x05:path")
                    || before.starts_with(&[0x84, 0xb9, 0x58, 0xd3, 0x3f]);
                Name { length: name.length, is_path }
            }
            index => match STATIC.get(index - 1) {
                Some(length) => {
                    Name { length: usize::from(*length), is_path: PATHS.contains(&index) }
                }
                None => self.entries.get(index - 1 - STATIC.len())?.name,
            },
        };
        Some((name, Text::read(rest)?))
    }

    /// An entry larger than the table empties it (RFC 7541 §4.4).
    fn insert(&mut self, entry: Entry) {
        self.shrink(self.max.saturating_sub(entry.size));
        if entry.size <= self.max {
            self.size += entry.size;
            self.entries.push_front(entry);
        }
    }

    fn shrink(&mut self, max: usize) {
        while self.size > max {
            self.size -= self.entries.pop_back().map_or(self.size, |entry| entry.size);
        }
    }
}

/// A string literal (RFC 7541 §5.2).
struct Text {
    /// Decoded length.
    length: usize,
    /// Whether it contains a `#`.
    hash: bool,
}

impl Text {
    fn read(rest: &mut &[u8]) -> Option<Self> {
        let is_packed = rest.first()? & 0x80 != 0;
        let length = number(rest, 7)?;
        let (text, after) = rest.split_at_checked(length)?;
        *rest = after;
        Some(match is_packed {
            true => {
                let (length, hash) = huffman::measure(text);
                Self { length, hash }
            }
            false => Self { length, hash: memchr::memchr(b'#', text).is_some() },
        })
    }
}

/// Decodes an integer with a prefix of `bits` (RFC 7541 §5.1). Returns `None` above 28 bits, as h2 does.
fn number(rest: &mut &[u8], bits: u32) -> Option<usize> {
    let (first, mut after) = rest.split_first()?;
    let mask = (1 << bits) - 1;
    let mut number = usize::from(*first) & mask;
    if number == mask {
        for shift in [0, 7, 14, 21] {
            let (byte, behind) = after.split_first()?;
            after = behind;
            number += usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                *rest = after;
                return Some(number);
            }
        }
        return None;
    }
    *rest = after;
    Some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<_> = hex.bytes().filter(|byte| *byte != b' ').collect();
        let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
        digits.chunks(2).map(byte).collect()
    }

    /// The examples of RFC 7541 §C.3 to §C.6, with their table sizes.
    #[test]
    fn the_dynamic_table_is_tracked() {
        let requests = [
            ("8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d", 57),
            ("8286 84be 5808 6e6f 2d63 6163 6865", 110),
            ("8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65", 164),
        ];
        let packed = [
            ("8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff", 57),
            ("8286 84be 5886 a8eb 1064 9cbf", 110),
            ("8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf", 164),
        ];
        // These start with a table size of 256, which the examples set separately.
        let answers = [
            (
                "3fe1 01 4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 \
                 2d1b ff6e 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
                222,
            ),
            ("4883 640e ffc1 c0bf", 222),
            (
                "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad \
                 94e7 821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 \
                 65c0 03ed 4ee5 b106 3d50 07",
                215,
            ),
        ];
        for examples in [&requests, &packed, &answers] {
            let mut fields = Fields::new();
            for (block, size) in examples {
                assert_eq!(fields.has_fragment(&bytes(block)), Some(false), "{block}");
                assert_eq!(fields.size, *size, "{block}");
                assert_eq!(fields.entries.iter().map(|entry| entry.size).sum::<usize>(), *size);
            }
        }
    }

    #[test]
    fn fragments_are_found() {
        // (blocks in order, whether the last one has a fragment, reason)
        let table: [(&[&str], bool, &str); 12] = [
            (&["04 04 2f612362"], true, "/a#b, without indexing"),
            (&["14 04 2f612362"], true, "never indexed"),
            (&["45 04 2f612362"], true, "with indexing, by the other name"),
            (&["04 84 607ff51f"], true, "in Huffman's code"),
            (&["04 83 606c47"], false, "/a/b in Huffman's code"),
            (&["00 05 3a70617468 04 2f612362"], true, "the name as it is"),
            (&["00 84 b958d33f 04 2f612362"], true, "the name in Huffman's code"),
            (&["44 04 2f612362", "be"], true, "by an index"),
            (&["44 02 2f61", "0f2f 04 2f612362"], true, "by the name of an entry"),
            (&["44 04 2f612362", "20 3fe11f", "8284"], false, "gone with the table"),
            (&["00 01 61 04 2f612362"], false, "another field may have one"),
            (&["82 86 84 41 01 61"], false, "none at all"),
        ];
        for (blocks, wanted, why) in table {
            let mut fields = Fields::new();
            let found = blocks.iter().map(|block| fields.has_fragment(&bytes(block))).last();
            assert_eq!(found, Some(Some(wanted)), "{why}");
        }
    }

    #[test]
    fn invalid_blocks_are_reported() {
        for block in ["be", "7f", "04 05 2f", "ffffffffffff00", "3fe21f", "04", "7e 01 61"] {
            assert_eq!(Fields::new().has_fragment(&bytes(block)), None, "{block}");
        }
    }
}
