//! Byte classes, and small scanners based on them.

/// `tchar`: the bytes of methods and field names (RFC 9110, 5.6.2).
const TOKEN: u8 = 1;
/// The bytes of a `uri-host` and its port, except brackets (RFC 3986, 3.2.2).
const HOST: u8 = 2;

const KINDS: [u8; 256] = {
    let mut kinds = [0; 256];
    let mut at = 0;
    while at < 256 {
        let byte = at as u8;
        if byte.is_ascii_alphanumeric() {
            kinds[at] = TOKEN | HOST;
        }
        at += 1;
    }
    let tokens = b"!#$%&'*+-.^_`|~";
    at = 0;
    while at < tokens.len() {
        kinds[tokens[at] as usize] |= TOKEN;
        at += 1;
    }
    let hosts = b"-._~!$&'()*+,;=%";
    at = 0;
    while at < hosts.len() {
        kinds[hosts[at] as usize] |= HOST;
        at += 1;
    }
    kinds
};

pub(crate) fn is_token(byte: u8) -> bool {
    KINDS[byte as usize] & TOKEN != 0
}

pub(crate) fn is_host(byte: u8) -> bool {
    KINDS[byte as usize] & HOST != 0
}

/// `field-content`: visible, obs-text, space or tab (RFC 9110, 5.5).
pub(crate) fn is_value(byte: u8) -> bool {
    (byte >= 0x20 && byte != 0x7f) || byte == b'\t'
}

/// Removes leading and trailing optional white space (RFC 9110, 5.6.3).
pub(crate) fn trim(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = bytes {
        bytes = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = bytes {
        bytes = rest;
    }
    bytes
}

/// The values of all lines of the field `name`, which is case-insensitive.
pub(crate) fn field_values<'a, 'n>(
    lines: &'a [u8],
    name: &'n str,
) -> impl DoubleEndedIterator<Item = &'a [u8]> + use<'a, 'n> {
    FieldLines(lines).filter_map(move |(field_name, value)| {
        field_name.eq_ignore_ascii_case(name.as_bytes()).then_some(value)
    })
}

/// Names and values of the field lines of a head that a parser has accepted.
pub(crate) struct FieldLines<'a>(pub(crate) &'a [u8]);

impl<'a> Iterator for FieldLines<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        while !self.0.is_empty() {
            let end = memchr::memchr(b'\n', self.0).unwrap_or(self.0.len());
            let line = &self.0[..end];
            self.0 = self.0.get(end + 1..).unwrap_or_default();
            if let Some(field) = field(line) {
                return Some(field);
            }
        }
        None
    }
}

impl DoubleEndedIterator for FieldLines<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        while !self.0.is_empty() {
            let before = self.0.strip_suffix(b"\n").unwrap_or(self.0);
            let start = memchr::memrchr(b'\n', before).map_or(0, |end| end + 1);
            let line = &before[start..];
            self.0 = &self.0[..start];
            if let Some(field) = field(line) {
                return Some(field);
            }
        }
        None
    }
}

/// The name and the value in a line; `None` without a colon.
fn field(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let (name, value) = line.split_at(memchr::memchr(b':', line)?);
    let value = &value[1..];
    Some((name, trim(value.strip_suffix(b"\r").unwrap_or(value))))
}

/// The non-empty elements of a comma-separated list (RFC 9110, 5.6.1.2). Only for lists whose elements
/// contain no quoted strings.
pub fn elements(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|&byte| byte == b',').map(trim).filter(|element| !element.is_empty())
}

/// Parses decimal digits; a number above 64 bits saturates.
pub(crate) fn saturating_number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |number, &byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        Some(number.saturating_mul(10).saturating_add(digit))
    })
}

/// Parses decimal digits; `None` if the number exceeds 64 bits.
pub(crate) fn exact_number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |number, &byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_lines_from_both_ends() {
        let lines = b"A: b\r\nnone\r\n\r\nC:d e \nF:\r\nG: h";
        let fields: [(&[u8], &[u8]); 4] = [(b"A", b"b"), (b"C", b"d e"), (b"F", b""), (b"G", b"h")];
        assert!(FieldLines(lines).eq(fields));
        assert!(FieldLines(lines).rev().eq(fields.into_iter().rev()));
        let (mut both, mut rest) = (FieldLines(lines), FieldLines(&lines[..0]));
        assert_eq!((both.next(), both.next_back()), (Some(fields[0]), Some(fields[3])));
        assert_eq!(
            (both.next(), both.next_back(), both.next()),
            (Some(fields[1]), Some(fields[2]), None)
        );
        assert_eq!((rest.next(), rest.next_back()), (None, None));
        assert!(field_values(lines, "c").eq([&b"d e"[..]]));
    }

    #[test]
    fn numbers() {
        assert_eq!(exact_number(b""), None);
        assert_eq!(exact_number(b"+5"), None);
        assert_eq!(exact_number(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(exact_number(b"18446744073709551616"), None);
        assert_eq!(saturating_number(b"18446744073709551616"), Some(u64::MAX));
        assert_eq!(saturating_number(b"1e3"), None);
    }

    #[test]
    fn lists() {
        let all: Vec<_> = elements(b" a ,, b\t,").collect();
        assert_eq!(all, [b"a", b"b"]);
    }
}
