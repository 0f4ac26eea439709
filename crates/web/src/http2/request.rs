//! From a request in fields (RFC 9113 §8.3) to the head that HTTP/1.1 would have for it.
//!
//! h2 has checked the fields: names are lower-case tokens, values have no line breaks, and what belongs
//! to a connection of HTTP/1.1 is refused. It lets blanks around values pass, and lengths in lists, which are
//! refused here.

use h2::RecvStream;
use http::header::{CONTENT_LENGTH, COOKIE, EXPECT, HOST};
use http::{HeaderMap, HeaderValue, Method, Request};

/// Writes the head of `request` to `head`. False if the request is malformed: it has no target, two names for
/// one host, or a field that is none.
pub(super) fn write(request: &Request<RecvStream>, head: &mut Vec<u8>) -> bool {
    let (uri, fields) = (request.uri(), request.headers());
    if !are_well_formed(fields) || fields.get_all(CONTENT_LENGTH).iter().any(is_no_length) {
        return false;
    }
    let target = match (request.method(), uri.authority(), uri.path_and_query()) {
        // Its target is an authority, and it is answered as any method that is not served (RFC 9113 §8.5).
        (&Method::CONNECT, Some(authority), None) => authority.as_str(),
        (&Method::CONNECT, ..) => return false,
        (_, _, Some(target)) => target.as_str(),
        (_, _, None) => return false,
    };
    // `:authority` is preferred to `Host`, and they must agree (RFC 9113 §8.3.1).
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
        // The body is framed by its stream, and nobody waits for us before sending it: a client that
        // says so gets its answer instead.
        if name != HOST && name != COOKIE && name != CONTENT_LENGTH && name != EXPECT {
            line(head, name.as_str().as_bytes(), value.as_bytes());
        }
    }
    // Cookies may come in pieces (RFC 9113 §8.2.3).
    let cookies: Vec<_> = fields.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if !cookies.is_empty() {
        line(head, b"cookie", &cookies.join(&b"; "[..]));
    }
    head.extend_from_slice(b"\r\n");
    true
}

/// Whether no value begins or ends with a blank (RFC 9113 §8.2.1).
pub(super) fn are_well_formed(fields: &HeaderMap) -> bool {
    let is_blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    fields
        .values()
        .map(HeaderValue::as_bytes)
        .all(|value| !is_blank(value.first()) && !is_blank(value.last()))
}

/// h2 compares a length with the content, and takes signs and the like for one.
fn is_no_length(value: &HeaderValue) -> bool {
    value.is_empty() || !value.as_bytes().iter().all(u8::is_ascii_digit)
}

fn line(head: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    for part in [name, b": ", value, b"\r\n"] {
        head.extend_from_slice(part);
    }
}
