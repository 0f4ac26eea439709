//! Validity of fields (RFC 9113 §8.2).

/// Bytes of a token in lower case (RFC 9110 §5.6.2).
static TOKEN: [bool; 256] = {
    let mut token = [false; 256];
    let others = b"!#$%&'*+-.^_`|~";
    let mut at = 0;
    while at < others.len() {
        token[others[at] as usize] = true;
        at += 1;
    }
    let mut byte = 0;
    while byte < 256 {
        token[byte] |= (byte as u8).is_ascii_lowercase() || (byte as u8).is_ascii_digit();
        byte += 1;
    }
    token
};

/// Whether a field's name is a token in lower case, and its value has no control characters and no surrounding
/// whitespace. The colon of a pseudo-header field's name is not part of a token.
pub(crate) fn is_valid(name: &[u8], value: &[u8]) -> bool {
    let name = name.strip_prefix(b":").unwrap_or(name);
    !name.is_empty()
        && name.iter().fold(true, |valid, byte| valid & TOKEN[usize::from(*byte)])
        && is_valid_value(value)
}

/// Whether a field's value has no control characters and no surrounding whitespace.
pub(crate) fn is_valid_value(value: &[u8]) -> bool {
    let is_blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    // Folds without an early exit can be vectorized.
    value.iter().fold(true, |valid, &byte| valid & (byte >= b' ' || byte == b'\t') & (byte != 0x7f))
        && !is_blank(value.first())
        && !is_blank(value.last())
}

/// Whether `method` is a token (RFC 9110 §9.1).
pub(crate) fn is_token(method: &[u8]) -> bool {
    !method.is_empty() && method.iter().all(|byte| TOKEN[usize::from(byte.to_ascii_lowercase())])
}

/// Whether `target` is a path in origin form: it starts with `/` and contains only visible characters, no
/// fragment, and no invalid UTF-8 (RFC 9113 §8.3.1, RFC 3986 §3.3).
pub(crate) fn is_path(target: &[u8]) -> bool {
    target.first() == Some(&b'/')
        && target
            .iter()
            .fold(true, |valid, &byte| valid & (byte > b' ') & (byte != 0x7f) & (byte != b'#'))
        && str::from_utf8(target).is_ok()
}

/// Whether `scheme` has the syntax of RFC 3986 §3.1.
pub(crate) fn is_scheme(scheme: &[u8]) -> bool {
    matches!(scheme, b"https" | b"http")
        || scheme.first().is_some_and(u8::is_ascii_alphabetic)
            && scheme.iter().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte))
}

/// Whether a field is connection-specific, which HTTP/2 forbids (RFC 9113 §8.2.2).
pub(crate) fn is_connection_specific(name: &[u8], value: &[u8]) -> bool {
    match name {
        b"connection" | b"keep-alive" | b"proxy-connection" | b"transfer-encoding" | b"upgrade" => {
            true
        }
        b"te" => value != b"trailers",
        _ => false,
    }
}

/// Parses `Content-Length`: digits only (RFC 9110 §8.6).
pub(crate) fn length(value: &[u8]) -> Option<u64> {
    let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    str::from_utf8(value).ok().filter(|_| is_number)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_validated() {
        // (name, value, valid)
        let table: [(&[u8], &[u8], bool); 16] = [
            (b"a", b"", true),
            (b"a-b_c.9", b"a \t b", true),
            (b"a", b"\xc3\xa9\xff", true),
            (b":path", b"/", true),
            (b"", b"a", false),
            (b":", b"a", false),
            (b"A", b"a", false),
            (b"a b", b"a", false),
            (b"a:", b"a", false),
            (b"\xe9", b"a", false),
            (b"a", b" a", false),
            (b"a", b"a\t", false),
            (b"a", b"a\nb", false),
            (b"a", b"a\rb", false),
            (b"a", b"a\0b", false),
            (b"a", b"a\x7fb", false),
        ];
        for (name, value, valid) in table {
            assert_eq!(is_valid(name, value), valid, "{name:?} {value:?}");
        }
        for byte in (0..=255_u8).filter(|byte| !byte.is_ascii_uppercase()) {
            let valid = byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
            assert_eq!(is_valid(&[b'a', byte], b""), valid, "{byte:#x}");
        }
    }

    #[test]
    fn lengths_are_digits() {
        assert_eq!(length(b"0042"), Some(42));
        for value in [&b""[..], b"+4", b"-4", b"4, 4", b" 4", b"4a", b"99999999999999999999"] {
            assert_eq!(length(value), None, "{value:?}");
        }
    }

    #[test]
    fn paths_are_in_origin_form() {
        for path in ["/", "/a?b", "/\u{e9}", "//"] {
            assert!(is_path(path.as_bytes()), "{path}");
        }
        for path in
            [&b""[..], b"a", b"*", b"http://a/", b"/a b", b"/a#b", b"/\xff", b"/\x7f", b"/\n"]
        {
            assert!(!is_path(path), "{path:?}");
        }
    }
}
