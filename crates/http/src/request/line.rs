//! The request line (RFC 9112, 3).

use std::fmt;

use crate::reject::Reject;
use crate::status::Status;
use crate::syntax::bytes::is_token;
use crate::version::Version;

/// A request method. Names are case-sensitive (RFC 9110, 9.1), so `get` is a [`Method::Other`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method<'a> {
    /// GET (RFC 9110, 9.3.1).
    Get,
    /// HEAD (9.3.2): GET without the content.
    Head,
    /// OPTIONS (9.3.7).
    Options,
    /// Any other token, to be answered with 405. CONNECT is rejected before.
    Other(&'a str),
}

impl<'a> Method<'a> {
    /// The method with this name, which is a token.
    pub(crate) fn named(name: &'a str) -> Result<Method<'a>, Reject> {
        Ok(match name {
            "GET" => Method::Get,
            "HEAD" => Method::Head,
            "OPTIONS" => Method::Options,
            // Its target is an authority, and this server is not a proxy.
            "CONNECT" => {
                return Err(Reject::new(Status::MethodNotAllowed, "CONNECT is for proxies"));
            }
            _ => Method::Other(name),
        })
    }

    /// The method's name.
    pub fn as_str(self) -> &'a str {
        match self {
            Method::Get => "GET",
            Method::Head => "HEAD",
            Method::Options => "OPTIONS",
            Method::Other(name) => name,
        }
    }

    /// Whether the method retrieves a representation: GET or HEAD.
    pub fn reads(self) -> bool {
        matches!(self, Method::Get | Method::Head)
    }
}

impl fmt::Display for Method<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Method, target and version of a request line.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line<'a> {
    pub(crate) method: Method<'a>,
    pub(crate) target: &'a str,
    pub(crate) version: Version,
}

impl<'a> Line<'a> {
    /// Parses a request line without its line end. There must be exactly one space on either side of the
    /// target: more lenient parsers disagree on its end.
    pub(crate) fn parse(line: &'a [u8]) -> Result<Line<'a>, Reject> {
        let (method, rest) = method(line)?;
        let Some((rest, name)) = rest.split_last_chunk::<8>() else {
            return Err(Reject::bad("request line without a version"));
        };
        let version = version(name)?;
        let [target @ .., b' '] = rest else {
            return Err(Reject::bad("no space before the version"));
        };
        Ok(Line { method, target: self::target(target)?, version })
    }
}

fn method(line: &[u8]) -> Result<(Method<'_>, &[u8]), Reject> {
    if let Some(rest) = line.strip_prefix(b"GET ") {
        return Ok((Method::Get, rest));
    }
    let end = line.iter().position(|&byte| !is_token(byte)).unwrap_or(line.len());
    let (name, rest) = line.split_at(end);
    let (Some(rest), false) = (rest.strip_prefix(b" "), name.is_empty()) else {
        return Err(Reject::bad("invalid method"));
    };
    let name = str::from_utf8(name).map_err(|_| Reject::bad("invalid method"))?;
    Ok((Method::named(name)?, rest))
}

/// The version: any 1.x after 1.0 is treated as 1.1 (RFC 9110, 2.5).
fn version(name: &[u8; 8]) -> Result<Version, Reject> {
    match name {
        b"HTTP/1.1" => Ok(Version::Http11),
        b"HTTP/1.0" => Ok(Version::Http10),
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'2'..=b'9'] => Ok(Version::Http11),
        [b'H', b'T', b'T', b'P', b'/', b'0'..=b'9', b'.', b'0'..=b'9'] => Err(Reject::new(
            Status::VersionNotSupported,
            "only HTTP/1.0 and HTTP/1.1 are supported",
        )),
        _ => Err(Reject::bad("invalid version")),
    }
}

/// Any visible bytes except `#`; beyond ASCII only UTF-8, which browsers still produce.
fn target(target: &[u8]) -> Result<&str, Reject> {
    // A fold without an early exit can be vectorized.
    let invalid = target
        .iter()
        .fold(false, |bad, &byte| bad | (byte <= b' ') | (byte == 0x7f) | (byte == b'#'));
    if invalid || target.is_empty() {
        return Err(Reject::bad("invalid byte in the target"));
    }
    str::from_utf8(target).map_err(|_| Reject::bad("target is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_lines() {
        // (line, status or 0, reason)
        let table: &[(&str, u16, &str)] = &[
            ("GET / HTTP/1.1", 0, "3"),
            ("HEAD /a?b HTTP/1.0", 0, "3"),
            ("get / HTTP/1.1", 0, "3.1: methods are case-sensitive, this is another one"),
            ("BREW /pot HTTP/1.1", 0, "3.1: any token"),
            ("GET / HTTP/1.2", 0, "RFC 9110, 2.5: a higher minor version is read as 1.1"),
            ("GET /\u{e9} HTTP/1.1", 0, "raw UTF-8 is let through"),
            ("GET /", 400, "HTTP/0.9 is not spoken"),
            ("GET", 400, "3"),
            ("", 400, "3"),
            (" GET / HTTP/1.1", 400, "3: no white space first"),
            ("GET  / HTTP/1.1", 400, "3: one space"),
            ("GET /  HTTP/1.1", 400, "3: one space"),
            ("GET / HTTP/1.1 ", 400, "3: nothing after the version"),
            ("GET\t/ HTTP/1.1", 400, "3: a space, not a tab"),
            ("GET /a b HTTP/1.1", 400, "3.2: no white space in a target"),
            ("GET /\u{7f} HTTP/1.1", 400, "RFC 3986: controls"),
            ("GET /a#b HTTP/1.1", 400, "RFC 9110, 4.2.5: a fragment is never sent"),
            ("GET HTTP/1.1", 400, "3: no target"),
            ("G\u{e9}T / HTTP/1.1", 400, "3.1: a method is a token"),
            ("G(T / HTTP/1.1", 400, "3.1: a method is a token"),
            ("GET / http/1.1", 400, "2.3: case-sensitive"),
            ("GET / HTTP/1", 400, "2.3"),
            ("GET / HTTP/11.1", 400, "2.3: one digit"),
            ("GET / HTTP/1.10", 400, "2.3: one digit"),
            ("GET / HTTQ/1.1", 400, "2.3"),
            ("GET / HTTP/2.0", 505, "RFC 9110, 15.6.6"),
            ("PRI * HTTP/2.0", 505, "RFC 9113, 3.4: another protocol's preface"),
            ("GET / HTTP/0.9", 505, "RFC 9110, 15.6.6"),
            ("GET / HTTP/3.0", 505, "RFC 9110, 15.6.6"),
            ("CONNECT a:443 HTTP/1.1", 405, "RFC 9110, 9.3.6: not a proxy"),
        ];
        for (line, status, reason) in table {
            let found = Line::parse(line.as_bytes()).map_or_else(|e| e.status.code(), |_| 0);
            assert_eq!(found, *status, "{line:?}: {reason}");
        }
        assert!(Line::parse(b"GET /\xff HTTP/1.1").is_err());
    }
}
