//! The requested host, from the `Host` field or the target (RFC 9112, 3.2 and 3.3).

use crate::reject::Reject;
use crate::request::line::Method;
use crate::syntax::bytes::is_host;

/// Whether `value` is `uri-host [ ":" port ]` with a non-empty host. User information is not allowed (RFC
/// 9110, 4.2.4 and 7.2).
pub(crate) fn is_authority(value: &[u8]) -> bool {
    let rest = if let [b'[', rest @ ..] = value {
        let Some(end) = rest.iter().position(|&byte| byte == b']') else { return false };
        let (address, rest) = rest.split_at(end);
        if address.is_empty() || !address.iter().all(|&byte| is_host(byte) || byte == b':') {
            return false;
        }
        &rest[1..]
    } else {
        let end = value.iter().position(|&byte| !is_host(byte)).unwrap_or(value.len());
        if end == 0 {
            return false;
        }
        &value[end..]
    };
    match rest {
        [] => true,
        [b':', port @ ..] => port.len() <= 5 && port.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

/// The parts of a request target: path, query, and possibly the host.
pub(crate) struct Target<'a> {
    pub(crate) authority: Option<&'a str>,
    pub(crate) path: &'a str,
    pub(crate) query: Option<&'a str>,
}

impl<'a> Target<'a> {
    pub(crate) fn parse(target: &'a str, method: Method<'_>) -> Result<Target<'a>, Reject> {
        if target.starts_with('/') {
            let (path, query) = split_query(target);
            return Ok(Target { authority: None, path, query });
        }
        if target == "*" {
            return match method {
                Method::Options => Ok(Target { authority: None, path: "*", query: None }),
                _ => Err(Reject::bad("* is a target for OPTIONS only")),
            };
        }
        Target::absolute(target, method)
    }

    /// Parses `http://authority/path?query` (RFC 9112, 3.2.2), which every server must accept.
    fn absolute(target: &'a str, method: Method<'_>) -> Result<Target<'a>, Reject> {
        let rest = strip_prefix(target, "http://").or_else(|| strip_prefix(target, "https://"));
        let rest = rest.ok_or(Reject::bad("invalid form of target"))?;
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(end);
        if !is_authority(authority.as_bytes()) {
            return Err(Reject::bad("invalid authority in the target"));
        }
        let (path, query) = split_query(rest);
        let path = match (path, query, method) {
            // A proxy would convert it to the asterisk form (3.2.4).
            ("", None, Method::Options) => "*",
            ("", ..) => "/",
            _ => path,
        };
        Ok(Target { authority: Some(authority), path, query })
    }
}

fn split_query(target: &str) -> (&str, Option<&str>) {
    match memchr::memchr(b'?', target.as_bytes()) {
        Some(at) => (&target[..at], Some(&target[at + 1..])),
        None => (target, None),
    }
}

/// Removes a scheme, whose case is ignored.
pub(crate) fn strip_prefix<'a>(target: &'a str, scheme: &str) -> Option<&'a str> {
    let (start, rest) = target.split_at_checked(scheme.len())?;
    start.eq_ignore_ascii_case(scheme).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorities() {
        // RFC 3986, 3.2 and RFC 9110, 7.2
        let good = [
            "a",
            "a.example",
            "a:80",
            "a:",
            "127.0.0.1:8080",
            "[::1]",
            "[::1]:80",
            "a_b",
            "%61",
            "xn--bcher-kva.example",
        ];
        let bad = [
            "", ":80", "a b", "a/b", "u@a", "u:p@a", "a:b", "a:80:80", "a:123456", "[::1", "[]",
            "::1", "[::1]x", "a\\b", "a?b", "a#b", "\u{e9}", "a\tb", "[:: 1]", "a\0",
        ];
        for value in good {
            assert!(is_authority(value.as_bytes()), "{value:?}");
        }
        for value in bad {
            assert!(!is_authority(value.as_bytes()), "{value:?}");
        }
    }

    #[test]
    fn targets() {
        type Found<'a> = (Option<&'a str>, &'a str, Option<&'a str>);
        // (target, method, result, reason), RFC 9112
        let table: &[(&str, Method<'_>, Option<Found<'_>>, &str)] = &[
            ("/", Method::Get, Some((None, "/", None)), "3.2.1"),
            ("/a?", Method::Get, Some((None, "/a", Some(""))), "3.2.1: an empty query is one"),
            ("/a?b?c", Method::Get, Some((None, "/a", Some("b?c"))), "RFC 3986, 3.4"),
            ("//a/b", Method::Get, Some((None, "//a/b", None)), "3.2.1: a path, not an authority"),
            ("http://h/a?b", Method::Get, Some((Some("h"), "/a", Some("b"))), "3.2.2"),
            (
                "HTTP://h:80/",
                Method::Get,
                Some((Some("h:80"), "/", None)),
                "schemes are case-insensitive",
            ),
            ("https://h/", Method::Get, Some((Some("h"), "/", None)), "3.2.2"),
            ("http://h", Method::Get, Some((Some("h"), "/", None)), "RFC 9110, 4.2.3"),
            ("http://h?q", Method::Get, Some((Some("h"), "/", Some("q"))), "RFC 9110, 4.2.3"),
            ("http://h", Method::Options, Some((Some("h"), "*", None)), "3.2.4"),
            ("*", Method::Options, Some((None, "*", None)), "3.2.4"),
            ("*", Method::Get, None, "3.2.4: for OPTIONS only"),
            ("http://", Method::Get, None, "RFC 9110, 4.2.1: no empty host"),
            ("http:///a", Method::Get, None, "RFC 9110, 4.2.1: no empty host"),
            ("http://u@h/", Method::Get, None, "RFC 9110, 4.2.4: user information"),
            ("ftp://h/", Method::Get, None, "not our scheme"),
            ("h:80", Method::Get, None, "3.2.3: authority form is for CONNECT"),
            ("a/b", Method::Get, None, "3.2.1: a path begins with a slash"),
            ("?a", Method::Get, None, "3.2.1"),
        ];
        for (target, method, expected, reason) in table {
            let found = Target::parse(target, *method).ok();
            let found = found.map(|t| (t.authority, t.path, t.query));
            assert_eq!(found, *expected, "{target:?}: {reason}");
        }
    }
}
