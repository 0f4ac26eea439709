//! The client side, for load generators, tests and the reverse proxy.

mod repair;

use std::mem::MaybeUninit;

pub use repair::parse_and_repair;

use crate::limits::MAX_FIELDS;
use crate::request::framing::Body;
use crate::request::framing::Framing;
use crate::syntax::bytes::{FieldLines, elements, trim};
use crate::version::Version;

/// Appends a GET request. `host` and `path` are written unchanged; neither may contain white space.
pub fn write_get(out: &mut Vec<u8>, host: &str, path: &str, keep_alive: bool) {
    for part in ["GET ", path, " HTTP/1.1\r\nHost: ", host, "\r\n"] {
        out.extend_from_slice(part.as_bytes());
    }
    let end: &[u8] = if keep_alive { b"\r\n" } else { b"Connection: close\r\n\r\n" };
    out.extend_from_slice(end);
}

/// Content that follows a response's head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// A body with the same framing as a request's; [`BodyParser`](crate::BodyParser) finds its end.
    Framed(Body),
    /// Everything until the connection closes (RFC 9112, 6.3, rule 8).
    UntilClose,
}

/// A response head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// Length of the head in bytes.
    pub head: usize,
    /// Content that follows the head.
    pub content: Content,
    /// Whether the connection accepts another request.
    pub keep_alive: bool,
}

impl Response {
    /// Names and values of the field lines, in order. `bytes` starts with the parsed head.
    pub fn fields<'a>(
        &self,
        bytes: &'a [u8],
    ) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        let mut head = bytes.get(..self.head).unwrap_or_default();
        // The parser ignores empty lines before the status line.
        while let [b'\r' | b'\n', rest @ ..] = head {
            head = rest;
        }
        let line = memchr::memchr(b'\n', head).map_or(head.len(), |end| end + 1);
        FieldLines(&head[line..])
    }
}

/// The input is not an HTTP/1 response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadResponse;

impl std::fmt::Display for BadResponse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("not an HTTP/1 response")
    }
}

impl std::error::Error for BadResponse {}

/// Parses the head of a response; `None` if more bytes are needed. `head_only` means that the request was
/// HEAD, so that no content follows (RFC 9112, 6.3, rule 1).
///
/// # Errors
///
/// [`BadResponse`] if the input is not an HTTP/1 response, has more than [`MAX_FIELDS`] lines, or has
/// conflicting framing.
///
/// ```
/// use phalanx_http::{Body, client::{Content, parse_response}};
///
/// let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
/// let response = parse_response(bytes, false)?.unwrap();
/// assert_eq!((response.status, response.head), (200, bytes.len() - 2));
/// assert_eq!(response.content, Content::Framed(Body::Length(2)));
/// assert!(response.keep_alive);
/// assert_eq!(response.fields(bytes).next(), Some((&b"Content-Length"[..], &b"2"[..])));
/// # Ok::<(), phalanx_http::client::BadResponse>(())
/// ```
pub fn parse_response(bytes: &[u8], head_only: bool) -> Result<Option<Response>, BadResponse> {
    // Not initialized, which would cost as much as a third of the parser.
    let mut headers = [const { MaybeUninit::uninit() }; MAX_FIELDS];
    let mut parsed = httparse::Response::new(&mut []);
    let head = httparse::ParserConfig::default()
        .parse_response_with_uninit_headers(&mut parsed, bytes, &mut headers)
        .map_err(|_| BadResponse)?;
    let head = match head {
        httparse::Status::Complete(head) => head,
        httparse::Status::Partial => return Ok(None),
    };
    let status = parsed.code.ok_or(BadResponse)?;
    let version = match parsed.version.ok_or(BadResponse)? {
        0 => Version::Http10,
        _ => Version::Http11,
    };
    let (mut framing, mut framed) = (Framing::default(), false);
    let (mut close, mut keep) = (false, false);
    for header in parsed.headers.iter() {
        let is = |name: &str| header.name.eq_ignore_ascii_case(name);
        if is("content-length") {
            framed = true;
            framing.content_length(trim(header.value)).map_err(|_| BadResponse)?;
        } else if is("transfer-encoding") {
            framed = true;
            framing.transfer_encoding(header.value).map_err(|_| BadResponse)?;
        } else if is("connection") {
            for option in elements(header.value) {
                close |= option.eq_ignore_ascii_case(b"close");
                keep |= option.eq_ignore_ascii_case(b"keep-alive");
            }
        }
    }
    let none = head_only || matches!(status, 100..200 | 204 | 304);
    let content = match none {
        true => Content::Framed(Body::None),
        false if framed => Content::Framed(framing.body(version).map_err(|_| BadResponse)?),
        false => Content::UntilClose,
    };
    let open = !close && (version == Version::Http11 || keep) && content != Content::UntilClose;
    Ok(Some(Response { status, head, content, keep_alive: open }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_line_is_no_field() {
        let bytes = b"\r\n\nHTTP/1.1 200 a:b\r\nC: d\r\nContent-Length: 0\r\n\r\n";
        let response = parse_response(bytes, false).unwrap().unwrap();
        let names: Vec<_> = response.fields(bytes).map(|(name, _)| name).collect();
        assert_eq!((response.head, names), (bytes.len(), vec![&b"C"[..], b"Content-Length"]));
    }
}
