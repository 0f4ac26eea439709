//! Huffman code (RFC 7541 §B).
//!
//! The code is canonical: codes are ordered by length, and those of one length by symbol. The lengths
//! therefore determine the codes, and all tables are computed from them.

/// Code length of each symbol, in bits.
#[rustfmt::skip]
const LENGTHS: [u8; 256] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
];

/// Longest code, in bits. The end-of-string symbol is the last code of this length.
const MAX_LENGTH: usize = 30;
/// Codes up to this length are found with one access to [`SHORT`].
const SHORT_BITS: usize = 8;

/// The codes of one length: the first code, and the index in [`SORTED`] of its symbol.
#[derive(Clone, Copy)]
struct Level {
    /// The first code after those of this length, left-aligned in 32 bits.
    end: u64,
    code: u32,
    index: u32,
}

struct Tables {
    /// Code of each symbol.
    codes: [u32; 256],
    /// Symbols in the order of their codes.
    sorted: [u8; 256],
    /// Index: length of the code.
    levels: [Level; MAX_LENGTH + 1],
}

const TABLES: Tables = {
    let (mut codes, mut sorted) = ([0; 256], [0; 256]);
    let mut levels = [Level { end: 0, code: 0, index: 0 }; MAX_LENGTH + 1];
    let (mut length, mut code, mut index) = (1, 0_u32, 0);
    while length <= MAX_LENGTH {
        code <<= 1;
        (levels[length].code, levels[length].index) = (code, index);
        let mut symbol = 0;
        while symbol < 256 {
            if LENGTHS[symbol] as usize == length {
                codes[symbol] = code;
                sorted[index as usize] = symbol as u8;
                code += 1;
                index += 1;
            }
            symbol += 1;
        }
        levels[length].end = (code as u64) << (32 - length);
        length += 1;
    }
    assert!(code == (1 << MAX_LENGTH) - 1, "only the end-of-string symbol is left");
    Tables { codes, sorted, levels }
};

/// (symbol, length of its code) for the first bits of a text; length zero for longer codes.
static SHORT: [(u8, u8); 1 << SHORT_BITS] = {
    let mut short = [(0, 0); 1 << SHORT_BITS];
    let mut symbol = 0;
    while symbol < 256 {
        let length = LENGTHS[symbol] as usize;
        if length <= SHORT_BITS {
            let first = (TABLES.codes[symbol] as usize) << (SHORT_BITS - length);
            let mut at = first;
            while at < first + (1 << (SHORT_BITS - length)) {
                short[at] = (symbol as u8, length as u8);
                at += 1;
            }
        }
        symbol += 1;
    }
    short
};

static CODES: [u32; 256] = TABLES.codes;
static SORTED: [u8; 256] = TABLES.sorted;
static LEVELS: [Level; MAX_LENGTH + 1] = TABLES.levels;

/// Appends the decoded text. Returns `None` if the text contains the end-of-string symbol, or its padding is
/// not the beginning of that symbol (RFC 7541 §5.2).
pub(crate) fn decode(packed: &[u8], out: &mut Vec<u8>) -> Option<()> {
    out.reserve(packed.len() * 8 / 5);
    // The first `held` bits of `bits` are valid.
    let (mut bits, mut held) = (0_u64, 0_usize);
    let mut bytes = packed.iter();
    loop {
        while held <= 56
            && let Some(byte) = bytes.next()
        {
            bits |= u64::from(*byte) << (56 - held);
            held += 8;
        }
        let (symbol, length) = match SHORT[(bits >> 56) as usize] {
            (symbol, length @ 1..) => (symbol, usize::from(length)),
            (_, 0) => match long(bits >> 32) {
                Some(found) => found,
                // All ones: padding, or the end-of-string symbol.
                None => break,
            },
        };
        if length > held {
            break;
        }
        out.push(symbol);
        bits <<= length;
        held -= length;
    }
    (held < 8 && bits == !(u64::MAX >> held)).then_some(())
}

/// The symbol at the start of `bits`, 32 bits that start with a code of more than [`SHORT_BITS`] bits, and
/// the length of its code. Returns `None` for the end-of-string symbol.
fn long(bits: u64) -> Option<(u8, usize)> {
    let length = (SHORT_BITS + 1..=MAX_LENGTH).find(|length| bits < LEVELS[*length].end)?;
    let level = &LEVELS[length];
    let code = (bits >> (32 - length)) as u32;
    Some((SORTED[(level.index + code - level.code) as usize], length))
}

/// Length of the encoded text, in bytes.
pub(crate) fn encoded_length(text: &[u8]) -> usize {
    text.iter().map(|byte| usize::from(LENGTHS[usize::from(*byte)])).sum::<usize>().div_ceil(8)
}

/// Appends the encoded text.
pub(crate) fn encode(text: &[u8], out: &mut Vec<u8>) {
    let (mut bits, mut held) = (0_u64, 0);
    for byte in text {
        let length = u32::from(LENGTHS[usize::from(*byte)]);
        bits = bits << length | u64::from(CODES[usize::from(*byte)]);
        held += length;
        while held >= 8 {
            held -= 8;
            out.push((bits >> held) as u8);
        }
    }
    if held > 0 {
        out.push((bits << (8 - held)) as u8 | 0xff >> held);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_of_the_appendix() {
        // RFC 7541 §C.4 and §C.6.
        let table: [(&str, &[u8]); 5] = [
            ("www.example.com", b"\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff"),
            ("no-cache", b"\xa8\xeb\x10\x64\x9c\xbf"),
            ("302", b"\x64\x02"),
            ("/a#b", b"\x60\x7f\xf5\x1f"),
            ("", b""),
        ];
        for (text, packed) in table {
            let (mut out, mut back) = (Vec::new(), Vec::new());
            encode(text.as_bytes(), &mut out);
            assert_eq!(out, packed, "{text}");
            assert_eq!(encoded_length(text.as_bytes()), packed.len());
            assert_eq!(decode(packed, &mut back), Some(()));
            assert_eq!(back, text.as_bytes());
        }
    }

    #[test]
    fn every_pair_of_symbols_round_trips() {
        for first in 0..=255 {
            for second in 0..=255 {
                let (mut out, mut back) = (Vec::new(), Vec::new());
                encode(&[first, second], &mut out);
                assert_eq!(decode(&out, &mut back), Some(()));
                assert_eq!(back, [first, second]);
            }
        }
    }

    #[test]
    fn invalid_texts_are_rejected() {
        let table: [(&[u8], &str); 5] = [
            (b"\xff\xff\xff\xff", "the end-of-string symbol"),
            (b"\x1f\xff", "a byte of padding"),
            (b"\xff", "only padding, a byte of it"),
            (b"\x60\x7f\xf5\x1e", "padding with a zero"),
            (b"\xff\xff\xff\xfc", "the end-of-string symbol, then zeros"),
        ];
        for (packed, reason) in table {
            assert_eq!(decode(packed, &mut Vec::new()), None, "{reason}");
        }
    }
}
