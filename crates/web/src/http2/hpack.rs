//! Paths with a fragment, found in blocks of fields (RFC 7541).
//!
//! `:path` holds no `#` (RFC 9113 §8.3.1), and a request with one is malformed. The crate `http`, in whose
//! types h2 gives requests, cuts a fragment off without a word; so it is looked for in the bytes beneath h2.
//!
//! Only lengths, names and that one character matter. No text is decoded. Of the dynamic table there are the
//! sizes of the entries, and whether an entry is such a path.

use std::collections::VecDeque;

use crate::http2::huffman;

/// Bytes of the dynamic table, as both sides begin (RFC 9113 §6.5.2). The server asks for no other size.
const TABLE: usize = 4096;
/// Bytes that an entry counts beside its texts (RFC 7541 §4.1).
const OVERHEAD: usize = 32;
/// The lengths of the names in the static table (RFC 7541 §A).
const STATIC: [u8; 61] = [
    10, 7, 7, 5, 5, 7, 7, 7, 7, 7, 7, 7, 7, 7, 14, 15, 15, 13, 6, 27, 3, 5, 13, 13, 19, 16, 16, 14,
    16, 13, 12, 6, 4, 4, 6, 7, 4, 4, 8, 17, 13, 8, 19, 13, 4, 8, 12, 18, 19, 5, 7, 7, 11, 6, 10,
    25, 17, 10, 4, 3, 16,
];
/// The entries of the static table whose name is `:path`.
const PATHS: std::ops::RangeInclusive<usize> = 4..=5;

/// A field's name.
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
    /// It is a path with a fragment.
    fragment: bool,
}

/// Reads a connection's blocks, in their order.
pub(super) struct Fields {
    /// The newest first.
    entries: VecDeque<Entry>,
    size: usize,
    max: usize,
}

impl Fields {
    pub(super) fn new() -> Self {
        Self { entries: VecDeque::new(), size: 0, max: TABLE }
    }

    /// Whether one of the paths in a whole block has a fragment. None if the block cannot be read: h2
    /// ends the connection then.
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

    /// A field that is not in a table, or whose name only is.
    fn literal(&self, rest: &mut &[u8], bits: u32) -> Option<(Name, Text)> {
        let name = match number(rest, bits)? {
            0 => {
                let before = *rest;
                let name = Text::read(rest)?;
                // `:path`, as it is and in Huffman's code.
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

    /// An entry that is larger than the table empties it (RFC 7541 §4.4).
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

/// A text (RFC 7541 §5.2).
struct Text {
    /// Once decoded.
    length: usize,
    /// Whether it has a `#`.
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

/// A number whose first byte has so many bits of it (RFC 7541 §5.1). None above 28 bits, as in h2.
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

    /// The examples of RFC 7541 §C.3 to §C.6, with the sizes of the table that they tell.
    #[test]
    fn the_table_is_followed() {
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
        // These begin with a change of the table's size to 256, which is agreed on beside them there.
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
        // Each with the blocks before it. (blocks, whether the last has one, why)
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
    fn what_is_no_block_is_told() {
        for block in ["be", "7f", "04 05 2f", "ffffffffffff00", "3fe21f", "04", "7e 01 61"] {
            assert_eq!(Fields::new().has_fragment(&bytes(block)), None, "{block}");
        }
    }
}
