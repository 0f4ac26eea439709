//! Integers of variable length (RFC 9000 §16).

/// The longest encoding, in bytes.
pub(crate) const MAX_BYTES: usize = 8;

/// Decodes an integer and advances `rest` past it. Returns `None` if it is incomplete.
pub(crate) fn decode(rest: &mut &[u8]) -> Option<u64> {
    let length = 1 << (rest.first()? >> 6);
    let (bytes, after) = rest.split_at_checked(length)?;
    *rest = after;
    let number = bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    // The first two bits are the length.
    Some(number & ((1 << (8 * length - 2)) - 1))
}

/// Appends the shortest encoding of `number`, which is less than 2⁶².
pub(crate) fn encode(out: &mut Vec<u8>, number: u64) {
    match number {
        0..0x40 => out.push(number as u8),
        0x40..0x4000 => out.extend_from_slice(&(number as u16 | 0x4000).to_be_bytes()),
        0x4000..0x4000_0000 => out.extend_from_slice(&(number as u32 | 0x8000_0000).to_be_bytes()),
        _ => {
            debug_assert!(number < 1 << 62, "{number} has no encoding");
            out.extend_from_slice(&(number | 0xc000_0000_0000_0000).to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_of_the_appendix() {
        // RFC 9000 §A.1. The last is not the shortest encoding.
        let table: [(&[u8], u64); 5] = [
            (b"\xc2\x19\x7c\x5e\xff\x14\xe8\x8c", 151_288_809_941_952_652),
            (b"\x9d\x7f\x3e\x7d", 494_878_333),
            (b"\x7b\xbd", 15_293),
            (b"\x25", 37),
            (b"\x40\x25", 37),
        ];
        for (bytes, number) in table {
            for end in 0..bytes.len() {
                assert_eq!(decode(&mut &bytes[..end]), None, "incomplete");
            }
            let mut rest = &[bytes, b"!"].concat()[..];
            assert_eq!((decode(&mut rest), rest), (Some(number), &b"!"[..]));
        }
    }

    #[test]
    fn the_shortest_encoding_round_trips() {
        for (number, length) in [
            (0, 1),
            (63, 1),
            (64, 2),
            (16_383, 2),
            (16_384, 4),
            ((1 << 30) - 1, 4),
            (1 << 30, 8),
            ((1 << 62) - 1, 8),
        ] {
            let mut bytes = Vec::new();
            encode(&mut bytes, number);
            assert_eq!((bytes.len(), decode(&mut &bytes[..])), (length, Some(number)));
        }
    }
}
