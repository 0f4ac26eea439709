//! The data types of MQTT (MQTT 5 §1.5): integers of one, two, four and a variable number of bytes; binary
//! data and strings with a length prefix.

use crate::error::Error;

/// The largest variable-length integer: four bytes of seven bits.
pub(crate) const MAX_VARIABLE: usize = 0x0fff_ffff;

/// Decodes from the start of a slice.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

const TRUNCATED: Error = Error::malformed("the packet ends within a field");

impl<'a> Reader<'a> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[inline]
    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], Error> {
        let (head, rest) = self.0.split_at_checked(count).ok_or(TRUNCATED)?;
        self.0 = rest;
        Ok(head)
    }

    #[inline]
    pub(crate) fn byte(&mut self) -> Result<u8, Error> {
        let (byte, rest) = self.0.split_first().ok_or(TRUNCATED)?;
        self.0 = rest;
        Ok(*byte)
    }

    #[inline]
    pub(crate) fn u16(&mut self) -> Result<u16, Error> {
        let (two, rest) = self.0.split_first_chunk().ok_or(TRUNCATED)?;
        self.0 = rest;
        Ok(u16::from_be_bytes(*two))
    }

    #[inline]
    pub(crate) fn u32(&mut self) -> Result<u32, Error> {
        let (chunk, rest) = self.0.split_first_chunk().ok_or(TRUNCATED)?;
        self.0 = rest;
        Ok(u32::from_be_bytes(*chunk))
    }

    /// Decodes a variable-length integer. An encoding that is longer than necessary is an error, as the
    /// standard requires.
    #[inline]
    pub(crate) fn variable(&mut self) -> Result<usize, Error> {
        match variable(self.0)? {
            Some((value, length)) => {
                self.0 = &self.0[length..];
                Ok(value)
            }
            None => Err(TRUNCATED),
        }
    }

    #[inline]
    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], Error> {
        let length = self.u16()?;
        self.take(length.into())
    }

    #[inline]
    pub(crate) fn text(&mut self) -> Result<&'a str, Error> {
        text(self.bytes()?)
    }
}

/// Validates a string: UTF-8 without NUL (§1.5.4).
#[inline]
pub(crate) fn text(bytes: &[u8]) -> Result<&str, Error> {
    let text =
        std::str::from_utf8(bytes).map_err(|_| Error::malformed("a string is not valid UTF-8"))?;
    if bytes.contains(&0) {
        return Err(Error::malformed("a string contains NUL"));
    }
    Ok(text)
}

/// Whether `text` contains a disallowed Unicode code point (§1.5.4): a control character or a non-character.
/// A receiver may close its connection because of one.
#[inline]
pub(crate) fn has_disallowed(text: &str) -> bool {
    // Candidates in ASCII, and first bytes of others. No early exit, so that the loop is vectorized.
    let is_suspect = |byte: u8| byte < 0x20 || byte == 0x7f || byte == 0xc2 || byte >= 0xef;
    let suspects = text.bytes().fold(false, |any, byte| any | is_suspect(byte));
    suspects && text.chars().any(is_disallowed)
}

#[cold]
fn is_disallowed(c: char) -> bool {
    let is_non_character = matches!(c, '\u{fdd0}'..='\u{fdef}') || u32::from(c) & 0xfffe == 0xfffe;
    c.is_control() || is_non_character
}

/// The variable-length integer at the start of `bytes`, and its length; `None` if it is incomplete.
#[inline]
pub(crate) fn variable(bytes: &[u8]) -> Result<Option<(usize, usize)>, Error> {
    let mut value = 0;
    for (at, byte) in bytes.iter().take(4).enumerate() {
        value |= usize::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            if at > 0 && *byte == 0 {
                return Err(Error::malformed(
                    "a variable-length integer is not encoded in the fewest bytes",
                ));
            }
            return Ok(Some((value, at + 1)));
        }
    }
    match bytes.len() {
        ..4 => Ok(None),
        _ => Err(Error::malformed("a variable-length integer has more than four bytes")),
    }
}

/// The encoded length of a variable-length integer.
#[inline]
pub(crate) const fn variable_length(value: usize) -> usize {
    match value {
        0..=0x7f => 1,
        0x80..=0x3fff => 2,
        0x4000..=0x1f_ffff => 3,
        _ => 4,
    }
}

/// Encodes a variable-length integer of at most [`MAX_VARIABLE`].
#[inline]
pub(crate) fn put_variable(out: &mut Vec<u8>, mut value: usize) {
    debug_assert!(value <= MAX_VARIABLE);
    while value > 0x7f {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(crate) fn put_u16(out: &mut Vec<u8>, value: u16) {
    out.extend_from_slice(&value.to_be_bytes());
}

pub(crate) fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_be_bytes());
}

/// Encodes bytes with a length prefix.
#[inline]
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) -> Result<(), Error> {
    let length = u16::try_from(bytes.len())
        .map_err(|_| Error::malformed("a field is longer than 65535 bytes"))?;
    put_u16(out, length);
    out.extend_from_slice(bytes);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_of_variable_length() {
        for value in [0, 1, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152, MAX_VARIABLE] {
            let mut bytes = Vec::new();
            put_variable(&mut bytes, value);
            assert_eq!(bytes.len(), variable_length(value), "{value}");
            assert_eq!(variable(&bytes), Ok(Some((value, bytes.len()))), "{value}");
            assert_eq!(variable(&bytes[..bytes.len() - 1]), Ok(None), "{value}");
        }
        assert!(variable(&[0x80, 0x80, 0x80, 0x80]).is_err(), "five bytes or more");
        assert!(variable(&[0x81, 0x00]).is_err(), "longer than necessary");
    }

    #[test]
    fn text_is_utf_8_without_nul() {
        assert!(text(b"a\0b").is_err() && text(b"\xff").is_err() && text(b"\xed\xa0\x80").is_err());
        assert_eq!(text("a/\u{fffe}é".as_bytes()), Ok("a/\u{fffe}é"));
    }

    #[test]
    fn disallowed_code_points() {
        for bad in ["\u{1}", "\n", "\u{1f}", "\u{7f}", "\u{80}", "\u{9f}", "\u{fdd0}", "\u{fdef}"] {
            assert!(has_disallowed(&format!("a{bad}b")), "{bad:?}");
        }
        for bad in ["\u{fffe}", "\u{ffff}", "\u{1fffe}", "\u{10ffff}"] {
            assert!(has_disallowed(bad), "{bad:?}");
        }
        for valid in ["", " ~", "é\u{a0}Â", "\u{fdcf}\u{fdf0}\u{feff}\u{fffd}", "🦀\u{10fffd}", "ﬀ"]
        {
            assert!(!has_disallowed(valid), "{valid:?}");
        }
    }
}
