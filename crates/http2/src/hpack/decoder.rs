//! The decoder of field blocks (RFC 7541 §3).

use crate::fields::{is_valid, is_valid_value};
use crate::hpack::dynamic_table::DynamicTable;
use crate::hpack::{integer, static_table, string};

/// A decoded field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) value: &'a [u8],
    /// Whether name and value consist of permitted bytes (RFC 9113 §8.2.1). Stored for fields in the tables, so that
    /// repeated fields are not validated again.
    pub(crate) valid: bool,
}

/// A field block that cannot be decoded, which is a connection error (RFC 9113 §4.3).
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Invalid;

/// The decoder state of a connection.
pub(crate) struct Decoder {
    table: DynamicTable,
    /// The current field, if it is not added to the table.
    scratch: Vec<u8>,
}

impl Decoder {
    pub(crate) fn new() -> Self {
        Self { table: DynamicTable::new(), scratch: Vec::new() }
    }

    /// Decodes a complete block and passes its fields in order to `see`, which returns `None` to stop the decoding.
    ///
    /// # Errors
    /// If the block is invalid, or `see` has stopped the decoding. The decoder must not be used afterwards.
    pub(crate) fn decode(
        &mut self,
        block: &[u8],
        mut emit: impl FnMut(Field<'_>) -> Option<()>,
    ) -> Result<(), Invalid> {
        self.decode_fields(block, &mut emit).ok_or(Invalid)
    }

    #[inline]
    fn decode_fields(
        &mut self,
        mut rest: &[u8],
        emit: &mut impl FnMut(Field<'_>) -> Option<()>,
    ) -> Option<()> {
        let mut is_first = true;
        while let Some(&first) = rest.first() {
            match first {
                0x80.. => emit(self.get(integer::decode(&mut rest, 7)?)?)?,
                0x40.. => self.indexed_literal(&mut rest, emit)?,
                // A size update is permitted only at the beginning (RFC 7541 §4.2).
                0x20.. => {
                    is_first.then_some(())?;
                    self.table.resize(integer::decode(&mut rest, 5)?)?;
                    continue;
                }
                _ => self.literal(&mut rest, emit)?,
            }
            is_first = false;
        }
        Some(())
    }

    #[inline]
    fn get(&self, index: usize) -> Option<Field<'_>> {
        match index.checked_sub(static_table::LENGTH + 1) {
            Some(index) => self.table.get(index),
            None => {
                static_table::get(index).map(|(name, value)| Field { name, value, valid: true })
            }
        }
    }

    /// A literal that is added to the table. It is decoded into the table's memory.
    fn indexed_literal(
        &mut self,
        rest: &mut &[u8],
        emit: &mut impl FnMut(Field<'_>) -> Option<()>,
    ) -> Option<()> {
        let index = integer::decode(rest, 6)?;
        let start = self.table.bytes.len();
        let mut has_valid_name = false;
        match index.checked_sub(static_table::LENGTH + 1) {
            Some(index) => has_valid_name = self.table.copy_name(index)?,
            None if index == 0 => string::decode(rest, 7, &mut self.table.bytes)?,
            None => self.table.bytes.extend_from_slice(static_table::get(index)?.0),
        }
        let name = self.table.bytes.len() - start;
        string::decode(rest, 7, &mut self.table.bytes)?;
        let field = checked(&self.table.bytes[start..], name, has_valid_name);
        emit(field)?;
        let valid = field.valid;
        self.table.insert(start, name, valid);
        Some(())
    }

    /// A literal that is not added to the table.
    fn literal(
        &mut self,
        rest: &mut &[u8],
        emit: &mut impl FnMut(Field<'_>) -> Option<()>,
    ) -> Option<()> {
        let mut has_valid_name = false;
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        match integer::decode(rest, 4)? {
            0 => string::decode(rest, 7, &mut scratch)?,
            index => {
                let field = self.get(index)?;
                has_valid_name = field.valid;
                scratch.extend_from_slice(field.name);
            }
        }
        let name = scratch.len();
        string::decode(rest, 7, &mut scratch)?;
        emit(checked(&scratch, name, has_valid_name))?;
        if scratch.capacity() <= MAX_SCRATCH_BYTES {
            self.scratch = scratch;
        }
        Some(())
    }

    /// Size of the table's entries.
    #[cfg(test)]
    fn size(&self) -> usize {
        self.table.size()
    }
}

/// Decodes a block that refers to no table of a connection, such as those of the [`encoder`]. Returns the names and
/// values of its fields, or `None` if the block is invalid.
///
/// [`encoder`]: crate::encoder
pub fn decode_block(block: &[u8]) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut fields = Vec::new();
    let emit = |field: Field<'_>| {
        fields.push((field.name.to_vec(), field.value.to_vec()));
        Some(())
    };
    Decoder::new().decode(block, emit).ok()?;
    Some(fields)
}

/// Memory that an idle connection keeps for literals, in bytes.
const MAX_SCRATCH_BYTES: usize = 256;

/// The field in `bytes`. A name taken from a valid field is not validated again, because a block of small literals may
/// refer to a long name many times.
fn checked(bytes: &[u8], name: usize, has_valid_name: bool) -> Field<'_> {
    let (name, value) = bytes.split_at(name);
    let valid = if has_valid_name { is_valid_value(value) } else { is_valid(name, value) };
    Field { name, value, valid }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<_> = hex.bytes().filter(|byte| *byte != b' ').collect();
        let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
        digits.chunks(2).map(byte).collect()
    }

    fn decode(decoder: &mut Decoder, block: &[u8]) -> Result<String, Invalid> {
        let mut fields = Vec::new();
        decoder.decode(block, |field| {
            assert!(field.valid || field.name.starts_with(b":"), "{field:?}");
            fields.push([field.name, b"=", field.value].concat());
            Some(())
        })?;
        Ok(String::from_utf8(fields.join(&b'\n')).unwrap())
    }

    /// The examples of RFC 7541 §C.3 to §C.6, with the size of the table after each.
    #[test]
    fn examples_of_the_appendix() {
        const BEGIN: &str = ":method=GET\n:scheme=http\n:path=/\n:authority=www.example.com";
        let third = BEGIN.replace("http\n:path=/", "https\n:path=/index.html")
            + "\ncustom-key=custom-value";
        let requests = [BEGIN.into(), format!("{BEGIN}\ncache-control=no-cache"), third];
        let plain = [
            ("8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d", 57),
            ("8286 84be 5808 6e6f 2d63 6163 6865", 110),
            ("8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65", 164),
        ];
        let packed = [
            ("8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff", 57),
            ("8286 84be 5886 a8eb 1064 9cbf", 110),
            ("8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf", 164),
        ];
        for blocks in [plain, packed] {
            let mut decoder = Decoder::new();
            for ((block, size), fields) in blocks.iter().zip(&requests) {
                assert_eq!(decode(&mut decoder, &bytes(block)).unwrap(), *fields);
                assert_eq!(decoder.size(), *size);
            }
        }
        // The example sets a table size of 256 separately.
        let answers = [
            (
                "3fe1 01 4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 \
                 2d1b ff6e 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
                ":status=302\ncache-control=private\ndate=Mon, 21 Oct 2013 20:13:21 GMT\n\
                 location=https://www.example.com",
                222,
            ),
            (
                "4883 640e ffc1 c0bf",
                ":status=307\ncache-control=private\ndate=Mon, 21 Oct 2013 20:13:21 GMT\n\
                 location=https://www.example.com",
                222,
            ),
            (
                "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad \
                 94e7 821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 \
                 65c0 03ed 4ee5 b106 3d50 07",
                ":status=200\ncache-control=private\ndate=Mon, 21 Oct 2013 20:13:22 GMT\n\
                 location=https://www.example.com\ncontent-encoding=gzip\n\
                 set-cookie=foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1",
                215,
            ),
        ];
        let mut decoder = Decoder::new();
        for (block, fields, size) in answers {
            assert_eq!(decode(&mut decoder, &bytes(block)).unwrap(), fields);
            assert_eq!(decoder.size(), size);
        }
    }

    #[test]
    fn names_of_entries_are_reused() {
        let mut decoder = Decoder::new();
        assert_eq!(
            decode(&mut decoder, &bytes("4401 2f be 7e 01 61 0f2f 01 62")).unwrap(),
            ":path=/\n:path=/\n:path=a\n:path=b"
        );
    }

    #[test]
    fn invalid_blocks_are_rejected() {
        let table = [
            ("80", "index zero"),
            ("be", "no such entry"),
            ("7f 00", "no such name"),
            ("04 05 2f", "truncated value"),
            ("04", "no value"),
            ("40 01", "truncated name"),
            ("ffffffffffff00", "an integer that is too long"),
            ("3fe21f", "a table larger than permitted"),
            ("82 20", "a size update behind a field"),
            ("0084 ffffffff 0161", "the end-of-string symbol"),
        ];
        for (block, reason) in table {
            assert_eq!(decode(&mut Decoder::new(), &bytes(block)), Err(Invalid), "{reason}");
        }
    }

    #[test]
    fn size_updates_evict() {
        let mut decoder = Decoder::new();
        decode(&mut decoder, &bytes("4401 61 4401 62")).unwrap();
        assert_eq!(decoder.size(), 76);
        decode(&mut decoder, &bytes("3f 0a")).unwrap();
        assert_eq!(decoder.size(), 38, "41 bytes");
        assert_eq!(decode(&mut decoder, &bytes("be")).unwrap(), ":path=b");
        decode(&mut decoder, &bytes("20 3fe11f")).unwrap();
        assert_eq!(decoder.size(), 0);
        assert_eq!(decode(&mut decoder, &bytes("be")), Err(Invalid));
    }
}
