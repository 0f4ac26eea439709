//! Encoding of single fields: as a line for HTTP/1.1, as a literal for HTTP/2.

use phalanx_http2::encoder;

/// Appends a field line. Line breaks and NULs in the value are replaced by spaces, so that no value can start
/// another line (RFC 9110, 5.5).
pub(crate) fn line(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    let start = out.len();
    out.extend_from_slice(value);
    replace_breaks(&mut out[start..]);
    out.extend_from_slice(b"\r\n");
}

/// Appends a field to an HTTP/2 field block. The block refers to no table of a connection (RFC 7541, 6.2.2). The
/// value is changed as in [`line`], and loses surrounding white space (RFC 9113, 8.2.1).
pub(crate) fn field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    let value = value.trim_ascii();
    if memchr::memchr3(b'\r', b'\n', 0, value).is_none() {
        encoder::field(out, name, value);
    } else {
        let mut value = value.to_vec();
        replace_breaks(&mut value);
        encoder::field(out, name, &value);
    }
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
