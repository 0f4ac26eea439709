//! Integers with a prefix (RFC 7541 §5.1).

/// Largest decoded integer; longer encodings are rejected.
const MAX_BITS: u32 = 28;

/// Decodes an integer whose first byte has a prefix of `bits` bits, and advances `rest` past it. Returns `None` if it
/// is incomplete or has more than 28 bits after the prefix.
#[inline]
pub fn decode(rest: &mut &[u8], bits: u32) -> Option<usize> {
    let (first, mut after) = rest.split_first()?;
    let mask = (1 << bits) - 1;
    let mut number = usize::from(*first) & mask;
    if number == mask {
        let mut shift = 0;
        loop {
            let (byte, behind) = after.split_first()?;
            after = behind;
            number += usize::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
            if shift == MAX_BITS {
                return None;
            }
        }
    }
    *rest = after;
    Some(number)
}

/// Appends `number` with a prefix of `bits` bits; `first` contains the bits before the prefix.
#[inline]
pub fn encode(out: &mut Vec<u8>, first: u8, bits: u32, number: usize) {
    let mask = (1 << bits) - 1;
    if number < mask {
        out.push(first | number as u8);
        return;
    }
    out.push(first | mask as u8);
    let mut rest = number - mask;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_of_the_appendix() {
        // RFC 7541 §C.1. (number, bits, bytes)
        let table: [(usize, u32, &[u8]); 3] =
            [(10, 5, &[10]), (1337, 5, &[31, 154, 10]), (42, 8, &[42])];
        for (number, bits, bytes) in table {
            let mut out = Vec::new();
            encode(&mut out, 0, bits, number);
            assert_eq!(out, bytes);
            assert_eq!(decode(&mut &bytes[..], bits), Some(number));
        }
    }

    #[test]
    fn every_prefix_round_trips() {
        for bits in 1..=8 {
            for number in (0..600).chain([16_383, 16_384, 1 << 20, 1 << 28]) {
                let mut out = Vec::new();
                encode(&mut out, 0, bits, number);
                out.push(0xaa);
                let mut rest = &out[..];
                assert_eq!(decode(&mut rest, bits), Some(number));
                assert_eq!(rest, [0xaa]);
                for end in 0..out.len() - 1 {
                    assert_eq!(decode(&mut &out[..end], bits), None, "truncated");
                }
            }
        }
    }

    #[test]
    fn long_encodings_are_rejected() {
        assert_eq!(decode(&mut &[0x1f, 0xff, 0xff, 0xff, 0xff, 0][..], 5), None);
        assert_eq!(decode(&mut &[0x1f, 0x80, 0x80, 0x80, 0][..], 5), Some(31), "padded with zeros");
    }
}
