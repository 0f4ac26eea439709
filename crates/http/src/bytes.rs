//! Kinds of bytes, and the small scanners built on them.

/// `tchar`: what methods and field names are made of (RFC 9110, 5.6.2).
const TOKEN: u8 = 1;
/// What a `uri-host` and its port are made of, brackets aside (RFC 3986, 3.2.2).
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

/// Without optional white space at either end (RFC 9110, 5.6.3).
pub(crate) fn trim(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = bytes {
        bytes = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = bytes {
        bytes = rest;
    }
    bytes
}

/// The elements of a comma-separated list without the empty ones (RFC 9110, 5.6.1.2). Only for
/// lists whose elements hold no quoted strings.
pub(crate) fn elements(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|&byte| byte == b',').map(trim).filter(|element| !element.is_empty())
}

/// A run of decimal digits as a number; one too large for 64 bits counts as the largest.
pub(crate) fn saturating_number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |number, &byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        Some(number.saturating_mul(10).saturating_add(digit))
    })
}

/// A run of decimal digits as a number that fits.
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
