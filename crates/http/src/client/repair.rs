//! Repair of response heads of old servers, which a gateway must do before it forwards them (RFC 9112, 5.1 and 5.2).

use httparse::{EMPTY_HEADER, ParserConfig};

use crate::client::{BadResponse, Response, parse_response};
use crate::limits::MAX_FIELDS;

/// Like [`parse_response`], for a response that is to be forwarded: repairs the head in `bytes`. The line end before a
/// continuation line is replaced by spaces, and white space before a colon is moved after it. The length does not
/// change.
///
/// ```
/// use phalanx_http::client::parse_and_repair;
///
/// let mut bytes = b"HTTP/1.1 204 No Content\r\nA : b\r\n c\r\n\r\n".to_vec();
/// let response = parse_and_repair(&mut bytes, false)?.unwrap();
/// assert_eq!(response.fields(&bytes).next(), Some((&b"A"[..], &b"b   c"[..])));
/// # Ok::<(), phalanx_http::client::BadResponse>(())
/// ```
///
/// # Errors
///
/// Like [`parse_response`].
pub fn parse_and_repair(
    bytes: &mut [u8],
    head_only: bool,
) -> Result<Option<Response>, BadResponse> {
    let parsed = parse_response(bytes, head_only);
    if parsed.is_ok() {
        return parsed;
    }
    let mut headers = [EMPTY_HEADER; MAX_FIELDS];
    let mut response = httparse::Response::new(&mut headers);
    let lenient = ParserConfig::default()
        .allow_obsolete_multiline_headers_in_responses(true)
        .allow_spaces_after_header_name_in_responses(true)
        .parse_response(&mut response, bytes);
    match lenient.map_err(|_| BadResponse)? {
        httparse::Status::Partial => Ok(None),
        httparse::Status::Complete(head) => {
            repair(&mut bytes[..head]);
            parse_response(bytes, head_only)
        }
    }
}

/// Repairs a complete head.
fn repair(head: &mut [u8]) {
    for at in 1..head.len() {
        if head[at - 1] == b'\n' && is_space(head[at]) {
            head[at - 1] = b' ';
            if at >= 2 && head[at - 2] == b'\r' {
                head[at - 2] = b' ';
            }
        }
    }
    for line in head.split_mut(|byte| *byte == b'\n').skip(1) {
        if let Some(colon) = memchr::memchr(b':', line) {
            let name = line[..colon].iter().rposition(|byte| !is_space(*byte));
            line.swap(name.map_or(0, |at| at + 1), colon);
        }
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Content;
    use crate::request::framing::Body;

    #[test]
    fn heads_are_repaired() {
        // (field lines, names and values)
        let table: &[(&str, &[(&str, &str)])] = &[
            ("A: b\r\n", &[("A", "b")]),
            ("A: b\r\n\tc\r\n  d\r\nE: f\r\n", &[("A", "b  \tc    d"), ("E", "f")]),
            ("A:\r\n b:c\r\n", &[("A", "b:c")]),
            ("A: b\n c\r\n", &[("A", "b  c")]),
            ("A \t : b\r\nC: d\r\n", &[("A", "b"), ("C", "d")]),
            ("A : b\r\n C : d\r\n", &[("A", "b   C : d")]),
        ];
        for (lines, expected) in table {
            let mut bytes = format!("HTTP/1.1 204 No Content\r\n{lines}\r\nrest").into_bytes();
            let response = parse_and_repair(&mut bytes, false).unwrap().unwrap();
            assert_eq!(&bytes[response.head..], b"rest");
            let text = |bytes| str::from_utf8(bytes).unwrap();
            let fields = response.fields(&bytes);
            let fields: Vec<_> = fields.map(|(name, value)| (text(name), text(value))).collect();
            assert_eq!(fields, *expected, "{lines:?}");
        }
    }

    /// The framing is that of the repaired head.
    #[test]
    fn framing_is_read_after_the_repair() {
        let parse = |lines: &str| {
            let mut bytes = format!("HTTP/1.1 200 OK\r\n{lines}\r\n").into_bytes();
            parse_and_repair(&mut bytes, false).map(|response| response.unwrap().content)
        };
        assert_eq!(parse("Content-Length :\r\n 5\r\n"), Ok(Content::Framed(Body::Length(5))));
        assert_eq!(parse("A: b\r\n Content-Length: 5\r\n"), Ok(Content::UntilClose));
        assert_eq!(parse("Content-Length: 5\r\n 5\r\n"), Err(BadResponse));
        assert_eq!(parse(" A: b\r\n"), Err(BadResponse), "there is no line before it");
    }

    #[test]
    fn a_head_may_arrive_in_pieces() {
        let whole = b"HTTP/1.1 200 OK\r\nA : b\r\n c\r\n\r\n";
        for length in 0..whole.len() {
            let mut bytes = whole[..length].to_vec();
            assert_eq!(parse_and_repair(&mut bytes, false), Ok(None), "{length}");
            assert_eq!(bytes, whole[..length]);
        }
    }
}
