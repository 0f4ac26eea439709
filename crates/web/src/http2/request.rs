//! From a request in fields (RFC 9113 §8.3) to the head that HTTP/1.1 would have for it.
//!
//! h2 has checked the fields: names are lower-case tokens, values have no line breaks, and what belongs
//! to a connection of HTTP/1.1 is refused. What is left to decide here is which field becomes what.

use h2::RecvStream;
use http::header::{CONTENT_LENGTH, COOKIE, EXPECT, HOST};
use http::{Method, Request};

/// Writes the head of `request` to `head`. False if there is none in HTTP/1.1, or it is malformed: no path,
/// or two names for one host.
pub(super) fn write(request: &Request<RecvStream>, head: &mut Vec<u8>) -> bool {
    let (uri, fields) = (request.uri(), request.headers());
    if request.method() == Method::CONNECT {
        return false;
    }
    let Some(target) = uri.path_and_query() else { return false };
    // `:authority` is preferred to `Host`, and they must agree (RFC 9113 §8.3.1).
    let authority = uri.authority().map(|authority| authority.as_str().as_bytes());
    let mut hosts = fields.get_all(HOST).iter().map(http::HeaderValue::as_bytes);
    let (host, other) = (hosts.next(), hosts.next());
    if other.is_some() {
        return false;
    }
    let host = match (authority, host) {
        (Some(authority), Some(host)) if !authority.eq_ignore_ascii_case(host) => return false,
        (authority, host) => authority.or(host),
    };
    let Some(host) = host else { return false };

    for part in [request.method().as_str(), " ", target.as_str(), " HTTP/1.1\r\n"] {
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
    let cookies: Vec<_> = fields.get_all(COOKIE).iter().map(http::HeaderValue::as_bytes).collect();
    if !cookies.is_empty() {
        line(head, b"cookie", &cookies.join(&b"; "[..]));
    }
    head.extend_from_slice(b"\r\n");
    true
}

fn line(head: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    for part in [name, b": ", value, b"\r\n"] {
        head.extend_from_slice(part);
    }
}
