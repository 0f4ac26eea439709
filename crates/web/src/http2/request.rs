//! Converts an HTTP/2 request (RFC 9113 §8.3) to the equivalent HTTP/1.1 head.
//!
//! h2 has validated the fields: names are lower-case tokens, values contain no line breaks, and
//! connection-specific fields are rejected. It accepts whitespace around values and lists of lengths, which
//! are rejected here.

use h2::RecvStream;
use http::header::{CONTENT_LENGTH, COOKIE, EXPECT, HOST};
use http::{HeaderMap, HeaderValue, Method, Request};

/// Writes the head of `request` to `head`. Returns false if the request is malformed: no target, conflicting
/// hosts, or an invalid field.
pub(super) fn write(request: &Request<RecvStream>, head: &mut Vec<u8>) -> bool {
    let (uri, fields) = (request.uri(), request.headers());
    if !are_well_formed(fields) || fields.get_all(CONTENT_LENGTH).iter().any(is_no_length) {
        return false;
    }
    let target = match (request.method(), uri.authority(), uri.path_and_query()) {
        // The target of CONNECT is an authority. It gets the response for unsupported methods (RFC 9113
        // §8.5).
        (&Method::CONNECT, Some(authority), None) => authority.as_str(),
        (&Method::CONNECT, ..) => return false,
        (_, _, Some(target)) => target.as_str(),
        (_, _, None) => return false,
    };
    // `:authority` takes precedence over `Host`, and they must agree (RFC 9113 §8.3.1).
    let authority = uri.authority().map(|authority| authority.as_str().as_bytes());
    let mut hosts = fields.get_all(HOST).iter().map(HeaderValue::as_bytes);
    let (host, other) = (hosts.next(), hosts.next());
    if other.is_some() {
        return false;
    }
    let host = match (authority, host) {
        (Some(authority), Some(host)) if !authority.eq_ignore_ascii_case(host) => return false,
        (authority, host) => authority.or(host),
    };
    let Some(host) = host else { return false };

    for part in [request.method().as_str(), " ", target, " HTTP/1.1\r\n"] {
        head.extend_from_slice(part.as_bytes());
    }
    line(head, b"host", host);
    for (name, value) in fields {
        // The stream frames the body. Instead of 100 (Continue), a client that expects it gets the final
        // response.
        if name != HOST && name != COOKIE && name != CONTENT_LENGTH && name != EXPECT {
            line(head, name.as_str().as_bytes(), value.as_bytes());
        }
    }
    // Cookies may be split into several fields (RFC 9113 §8.2.3).
    let cookies: Vec<_> = fields.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if !cookies.is_empty() {
        line(head, b"cookie", &cookies.join(&b"; "[..]));
    }
    head.extend_from_slice(b"\r\n");
    true
}

/// Whether no value has leading or trailing whitespace (RFC 9113 §8.2.1).
pub(super) fn are_well_formed(fields: &HeaderMap) -> bool {
    let is_blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    fields
        .values()
        .map(HeaderValue::as_bytes)
        .all(|value| !is_blank(value.first()) && !is_blank(value.last()))
}

/// h2 compares lengths with the content, but accepts signs and the like.
fn is_no_length(value: &HeaderValue) -> bool {
    value.is_empty() || !value.as_bytes().iter().all(u8::is_ascii_digit)
}

fn line(head: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    for part in [name, b": ", value, b"\r\n"] {
        head.extend_from_slice(part);
    }
}
