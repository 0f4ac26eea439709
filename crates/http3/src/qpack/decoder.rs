//! The decoder of field sections (RFC 9204 §4.5).

use phalanx_http2::primitives::{integer, string};

use crate::qpack::static_table;

/// A field section that cannot be decoded, which is a connection error (RFC 9204 §2.2).
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Invalid;

/// Decodes a complete field section and passes the names and values of its fields in order to `see`.
///
/// # Errors
/// If the section is invalid, or refers to a dynamic table, which the server does not permit.
pub(crate) fn decode(section: &[u8], mut emit: impl FnMut(&[u8], &[u8])) -> Result<(), Invalid> {
    decode_fields(section, &mut emit).ok_or(Invalid)
}

/// Decodes a section that refers to no dynamic table, such as those of the [`encoder`](crate::encoder). Returns the names
/// and values of its fields, or `None` if the section is invalid.
pub fn decode_block(section: &[u8]) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut fields = Vec::new();
    decode(section, |name, value| fields.push((name.to_vec(), value.to_vec()))).ok()?;
    Some(fields)
}

fn decode_fields(mut rest: &[u8], emit: &mut impl FnMut(&[u8], &[u8])) -> Option<()> {
    // Without a dynamic table, Required Insert Count is zero and the base is meaningless.
    (integer::decode(&mut rest, 8)? == 0).then_some(())?;
    integer::decode(&mut rest, 7)?;
    let (mut names, mut values) = (Vec::new(), Vec::new());
    while let Some(&first) = rest.first() {
        values.clear();
        match first {
            // Indexed, static.
            0xc0.. => {
                let (name, value) = static_table::get(integer::decode(&mut rest, 6)?)?;
                emit(name, value);
            }
            // A literal with the name of a static entry. The bit N is only for intermediaries.
            0x40..0x80 if first & 0x10 != 0 => {
                let (name, _) = static_table::get(integer::decode(&mut rest, 4)?)?;
                string::decode(&mut rest, 7, &mut values)?;
                emit(name, &values);
            }
            // A literal with its own name.
            0x20..0x40 => {
                names.clear();
                string::decode(&mut rest, 3, &mut names)?;
                string::decode(&mut rest, 7, &mut values)?;
                emit(&names, &values);
            }
            // References to the dynamic table.
            _ => return None,
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(section: &[u8]) -> Option<String> {
        let field = |(name, value): &(Vec<u8>, Vec<u8>)| {
            format!("{}={}", String::from_utf8_lossy(name), String::from_utf8_lossy(value))
        };
        decode_block(section).map(|fields| fields.iter().map(field).collect::<Vec<_>>().join("\n"))
    }

    #[test]
    fn every_form_is_decoded() {
        let table: [(&[u8], &str); 7] = [
            // RFC 9204 §B.1.
            (b"\0\0\x51\x0b/index.html", ":path=/index.html"),
            (b"\0\0", ""),
            (b"\0\0\xd1\xc1", ":method=GET\n:path=/"),
            (b"\0\0\xff\x23", "x-frame-options=sameorigin"),
            (b"\0\0\x23abc\x01d", "abc=d"),
            (b"\0\0\x27\x03abcdefghij\0", "abcdefghij="),
            // RFC 7541 §C.4.2 has the Huffman code of this value.
            (b"\0\0\x5f\x15\x86\xa8\xeb\x10\x64\x9c\xbf", "cache-control=no-cache"),
        ];
        for (section, fields) in table {
            assert_eq!(decoded(section).as_deref(), Some(fields), "{section:?}");
        }
    }

    #[test]
    fn invalid_sections_are_rejected() {
        let table: [(&[u8], &str); 11] = [
            (b"", "no prefix"),
            (b"\0", "half a prefix"),
            (b"\x01\0", "a dynamic table is required"),
            (b"\0\0\x80", "indexed, dynamic"),
            (b"\0\0\x40\x01a", "the name of a dynamic entry"),
            (b"\0\0\x10", "indexed behind the base"),
            (b"\0\0\0\x01a", "the name of an entry behind the base"),
            (b"\0\0\xff\x24", "no such entry"),
            (b"\0\0\x51", "no value"),
            (b"\0\0\x51\x02/", "a truncated value"),
            (b"\0\0\x51\x82\xff\xff", "padding of more than seven bits"),
        ];
        for (section, reason) in table {
            assert_eq!(decoded(section), None, "{reason}");
        }
    }
}
