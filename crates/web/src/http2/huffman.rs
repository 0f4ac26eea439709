//! Measures Huffman-coded text (RFC 7541 §B) without decoding it.
//!
//! The code is canonical: codes of one length are consecutive, and longer codes follow them. The first bits
//! of a code therefore determine its length.

/// (bits, number of symbols with a code of that length); the last length includes the end-of-string symbol.
const LEVELS: [(u32, u64); 21] = [
    (5, 10),
    (6, 26),
    (7, 32),
    (8, 6),
    (10, 5),
    (11, 3),
    (12, 2),
    (13, 6),
    (14, 2),
    (15, 3),
    (19, 3),
    (20, 8),
    (21, 13),
    (22, 26),
    (23, 29),
    (24, 12),
    (25, 4),
    (26, 15),
    (27, 19),
    (28, 29),
    (30, 4),
];

/// (bits, first 32-bit code after the codes of that length).
const ENDS: [(u32, u64); LEVELS.len()] = {
    let mut ends = [(0, 0); LEVELS.len()];
    let (mut at, mut end) = (0, 0);
    while at < LEVELS.len() {
        end += LEVELS[at].1 << (32 - LEVELS[at].0);
        ends[at] = (LEVELS[at].0, end);
        at += 1;
    }
    assert!(end == 1 << 32, "every text begins with some code");
    ends
};

/// The code of `#`: twelve bits.
const HASH: u64 = 0xffa;

/// Returns the decoded length of a text, and whether it contains a `#`. Trailing bits that form no complete
/// code are padding.
pub(super) fn measure(packed: &[u8]) -> (usize, bool) {
    let (mut length, mut hash) = (0, false);
    let (mut bits, mut held) = (0_u64, 0_u32);
    let mut bytes = packed.iter();
    loop {
        while held <= 32
            && let Some(byte) = bytes.next()
        {
            bits = bits << 8 | u64::from(*byte);
            held += 8;
        }
        // The next 32 bits; past the end, ones as in padding.
        let next = match held.checked_sub(32) {
            Some(more) => bits >> more & 0xffff_ffff,
            None => (bits << (32 - held) | 0xffff_ffff >> held) & 0xffff_ffff,
        };
        let Some((code, _)) = ENDS.iter().find(|(_, end)| next < *end) else { break };
        if *code > held {
            break;
        }
        held -= code;
        length += 1;
        hash |= *code == 12 && next >> 20 == HASH;
    }
    (length, hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_measured() {
        // The examples of RFC 7541 §C.4 and §C.6, and paths. (encoded, length, whether it contains a `#`)
        let table: [(&[u8], usize, bool); 9] = [
            (b"", 0, false),
            (b"\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff", 15, false),
            (b"\xa8\xeb\x10\x64\x9c\xbf", 8, false),
            (b"\x64\x02", 3, false),
            (b"\x9d\x29\xad\x17\x18\x63\xc7\x8f\x0b\x97\xc8\xe9\xae\x82\xae\x43\xd3", 23, false),
            (b"\x60\x7f\xf5\x1f", 4, true),
            (b"\x63\xfe\xbf", 2, true),
            (b"\x60\x6c\x47", 4, false),
            // The end-of-string symbol is invalid in a text; h2 rejects it.
            (b"\xff\xff\xff\xff", 1, false),
        ];
        for (packed, length, hash) in table {
            assert_eq!(measure(packed), (length, hash), "{packed:x?}");
        }
    }
}
