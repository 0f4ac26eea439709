//! Encoding of single fields: as a line for HTTP/1.1, as a literal for HTTP/2.

/// Appends a field line. Line breaks and NULs in the value are replaced by spaces, so that no value can start
/// another line (RFC 9110, 5.5).
pub(crate) fn line(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    let start = out.len();
    out.extend_from_slice(value);
    replace_breaks(&mut out[start..]);
    out.extend_from_slice(b"\r\n");
}

/// Appends a field to an HTTP/2 field block: a literal with literal name, without indexing (RFC 7541, 6.2.2).
/// The value is changed as in [`line`], and loses surrounding white space (RFC 9113, 8.2.1).
pub(crate) fn field(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    let value = value.trim_ascii();
    out.push(0);
    length(out, name.len());
    out.extend(name.bytes().map(|byte| byte.to_ascii_lowercase()));
    length(out, value.len());
    let start = out.len();
    out.extend_from_slice(value);
    replace_breaks(&mut out[start..]);
}

/// Appends the length of a string literal (RFC 7541, 5.1 and 5.2).
fn length(out: &mut Vec<u8>, length: usize) {
    let Some(mut rest) = length.checked_sub(127) else {
        out.push(length as u8);
        return;
    };
    out.push(127);
    while rest >= 128 {
        out.push(rest as u8 | 128);
        rest >>= 7;
    }
    out.push(rest as u8);
}

fn replace_breaks(value: &mut [u8]) {
    if memchr::memchr3(b'\r', b'\n', 0, value).is_some() {
        for byte in value {
            if matches!(byte, b'\r' | b'\n' | 0) {
                *byte = b' ';
            }
        }
    }
}
