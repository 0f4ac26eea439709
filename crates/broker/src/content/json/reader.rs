//! Reads the tokens of a JSON text.

use std::borrow::Cow;

/// Reads tokens. Each method returns `None` if the text is not JSON.
pub(super) struct Reader<'m> {
    text: &'m str,
    at: usize,
}

impl<'m> Reader<'m> {
    pub(super) fn new(text: &'m str) -> Self {
        Self { text, at: 0 }
    }

    fn bytes(&self) -> &'m [u8] {
        &self.text.as_bytes()[self.at..]
    }

    /// The next byte that is not white space.
    pub(super) fn token(&mut self) -> Option<u8> {
        let mut bytes = self.bytes().iter();
        let at = bytes.position(|byte| !matches!(byte, b' ' | b'\n' | b'\r' | b'\t'))?;
        let byte = self.bytes()[at];
        self.at += at + 1;
        Some(byte)
    }

    /// Reads the rest of a keyword.
    pub(super) fn rest(&mut self, rest: &str) -> Option<()> {
        let is_next = self.bytes().starts_with(rest.as_bytes());
        is_next.then(|| self.at += rest.len())
    }

    /// Reads a number whose first byte was already read.
    pub(super) fn number(&mut self) -> Option<&'m str> {
        self.at -= 1;
        let start = self.at;
        self.skip(b"-");
        let starts_with_zero = self.bytes().starts_with(b"0");
        if self.digits()? > 1 && starts_with_zero {
            return None;
        }
        if self.skip(b".") {
            self.digits()?;
        }
        if self.skip(b"eE") {
            self.skip(b"+-");
            self.digits()?;
        }
        Some(&self.text[start..self.at])
    }

    /// Skips the next byte if it is one of these. Returns whether it was skipped.
    fn skip(&mut self, any: &[u8]) -> bool {
        let is_next = self.bytes().first().is_some_and(|byte| any.contains(byte));
        self.at += usize::from(is_next);
        is_next
    }

    /// Skips at least one digit. Returns the number of digits.
    fn digits(&mut self) -> Option<usize> {
        let count = self.bytes().iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        (count > 0).then_some(count)
    }

    /// Reads a string whose opening quote was already read: `Some(None)` if it has an unpaired surrogate. Borrowed unless
    /// it has escapes.
    pub(super) fn string(&mut self) -> Option<Option<Cow<'m, str>>> {
        let (first, end) = self.until_special()?;
        if end == b'"' {
            return Some(Some(Cow::Borrowed(first)));
        }
        let (mut whole, mut is_valid) = (first.to_owned(), true);
        let mut special = end;
        while special == b'\\' {
            match self.escape()? {
                Some(character) => whole.push(character),
                None => is_valid = false,
            }
            let (part, end) = self.until_special()?;
            whole.push_str(part);
            special = end;
        }
        // A control character is not allowed.
        (special == b'"').then(|| is_valid.then_some(Cow::Owned(whole)))
    }

    /// Reads the text before the next quote, backslash or control character, and that byte.
    fn until_special(&mut self) -> Option<(&'m str, u8)> {
        let is_special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..=0x1f);
        let length = self.bytes().iter().position(is_special)?;
        let (start, end) = (self.at, self.at + length);
        self.at = end + 1;
        Some((&self.text[start..end], self.text.as_bytes()[end]))
    }

    /// Reads an escape whose backslash was already read: `Some(None)` for an unpaired surrogate.
    fn escape(&mut self) -> Option<Option<char>> {
        let code = *self.bytes().first()?;
        self.at += 1;
        let character = match code {
            b'"' | b'\\' | b'/' => char::from(code),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.unicode(),
            _ => return None,
        };
        Some(Some(character))
    }

    /// Reads one `\uXXXX`, or two that form a surrogate pair.
    fn unicode(&mut self) -> Option<Option<char>> {
        let first = self.hex()?;
        let behind = self.at;
        if (0xd800..0xdc00).contains(&first) && self.rest("\\u").is_some() {
            let second = self.hex()?;
            if (0xdc00..0xe000).contains(&second) {
                return Some(char::from_u32(0x1_0000 + ((first - 0xd800) << 10) + second - 0xdc00));
            }
            // The second escape is not the low surrogate, so it is read separately.
            self.at = behind;
        }
        Some(char::from_u32(first))
    }

    /// Reads four hexadecimal digits.
    fn hex(&mut self) -> Option<u32> {
        let digits = self.bytes().first_chunk::<4>()?;
        let value = digits
            .iter()
            .try_fold(0, |value, digit| Some(16 * value + char::from(*digit).to_digit(16)?));
        self.at += digits.len();
        value
    }
}
