//! Converts an HTTP/2 request (RFC 9113 §8.3) to a [`Request`].
//!
//! h2 has validated the fields: names are lower-case tokens, values contain no line breaks, and
//! connection-specific fields are rejected. It accepts whitespace around values and lists of lengths, which
//! are rejected here.

use http::header::{CONTENT_LENGTH, HOST};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method};
use phalanx_http::{Limits, Reject, Request};

/// Method, target and authority of a request. Returns `None` if the request is malformed: no target,
/// conflicting hosts, or an invalid field.
pub(super) fn parts(head: &Parts) -> Option<[&str; 3]> {
    let (uri, fields) = (&head.uri, &head.headers);
    if !are_well_formed(fields) || fields.get_all(CONTENT_LENGTH).iter().any(is_no_length) {
        return None;
    }
    let target = match (&head.method, uri.authority(), uri.path_and_query()) {
        // The target of CONNECT is an authority. It gets the response for unsupported methods (RFC 9113
        // §8.5).
        (&Method::CONNECT, Some(authority), None) => authority.as_str(),
        (&Method::CONNECT, ..) => return None,
        (_, _, Some(target)) => target.as_str(),
        (_, _, None) => return None,
    };
    // `:authority` takes precedence over `Host`, and they must agree (RFC 9113 §8.3.1).
    let authority = uri.authority().map(|authority| authority.as_str());
    let mut hosts = fields.get_all(HOST).iter();
    let (host, other) = (hosts.next(), hosts.next());
    if other.is_some() {
        return None;
    }
    let authority = match (authority, host) {
        (Some(authority), Some(host))
            if !authority.as_bytes().eq_ignore_ascii_case(host.as_bytes()) =>
        {
            return None;
        }
        // An invalid host gets an error response.
        (None, host) => str::from_utf8(host?.as_bytes()).unwrap_or_default(),
        (Some(authority), _) => authority,
    };
    Some([head.method.as_str(), target, authority])
}

/// Writes the fields as lines, for [`request`].
pub(super) fn write_lines(head: &Parts, lines: &mut Vec<u8>) {
    for (name, value) in &head.headers {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            lines.extend_from_slice(part);
        }
    }
}

/// The request with this head, its [`parts`] and its lines.
pub(super) fn request<'a>(
    head: &'a Parts,
    parts: [&'a str; 3],
    lines: &'a [u8],
    limits: &Limits,
) -> Result<Request<'a>, Reject> {
    let fields =
        head.headers.iter().map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()));
    Request::from_fields(parts, lines, fields, limits)
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
