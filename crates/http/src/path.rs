//! Conversion of request paths to file paths below the root.
//!
//! Opening files with `RESOLVE_BENEATH` confines a server to its root. This module rejects paths early that
//! can never be served, and normalizes the many names of one file.

mod below;
mod loose;

use std::error::Error;
use std::fmt;

use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, percent_encode};

pub use below::below;
pub use loose::resolve_loosely;

use crate::status::Status;

/// Properties of a resolved path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resolved {
    /// Whether the path names a directory: it ends with a slash, or is empty.
    pub directory: bool,
}

/// Reason why a path cannot name a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathError {
    /// It does not start with a slash.
    Relative,
    /// A `%` without two hexadecimal digits (RFC 3986, 2.1).
    Escape,
    /// A control character, including NUL, plain or encoded.
    Control,
    /// A backslash, plain or encoded: a separator on other systems.
    Backslash,
    /// A segment that decodes to `..`. Clients resolve these before sending (RFC 3986, 5.2.4).
    Parent,
    /// An encoded slash: no file name contains one, and proxies disagree on its meaning.
    Slash,
    /// A segment that starts with a dot, except `.well-known` at the top (RFC 8615).
    Hidden,
}

impl PathError {
    /// Status of the response: 404 where the file might not exist, otherwise 400.
    pub fn status(self) -> Status {
        match self {
            PathError::Slash | PathError::Hidden => Status::NotFound,
            _ => Status::BadRequest,
        }
    }
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PathError::Relative => "path without a leading slash",
            PathError::Escape => "invalid percent-encoding in the path",
            PathError::Control => "control character in the path",
            PathError::Backslash => "backslash in the path",
            PathError::Parent => "parent segment in the path",
            PathError::Slash => "encoded slash in the path",
            PathError::Hidden => "hidden segment in the path",
        })
    }
}

impl Error for PathError {}

/// Writes the relative file path for a request path to `out`.
///
/// Percent-encoding is decoded exactly once, repeated slashes are merged, and `.` segments are removed. The
/// result has no leading or trailing slash, and no segment is empty or starts with a dot (except
/// `.well-known` as the first). It may be empty, which is the root. It need not be UTF-8, because file names
/// need not be. It is never longer than `path`.
///
/// # Errors
///
/// A [`PathError`] if the path names nothing that may be served; the content of `out` is then unspecified.
///
/// ```
/// use phalanx_http::path::{PathError, resolve};
///
/// let mut out = Vec::new();
/// assert!(!resolve(b"/a//./b%20c.html", &mut out)?.directory);
/// assert_eq!(out, b"a/b c.html");
/// assert!(resolve(b"/a/", &mut out)?.directory);
/// assert_eq!(out, b"a");
/// assert_eq!(resolve(b"/a/%2e%2e/b", &mut out), Err(PathError::Parent));
/// # Ok::<(), PathError>(())
/// ```
pub fn resolve(path: &[u8], out: &mut Vec<u8>) -> Result<Resolved, PathError> {
    let mut rest = path.strip_prefix(b"/").ok_or(PathError::Relative)?;
    out.clear();
    out.reserve(path.len());
    loop {
        let end = memchr::memchr(b'/', rest).unwrap_or(rest.len());
        let is_kept = segment(&rest[..end], out)?;
        if end == rest.len() {
            return Ok(Resolved { directory: !is_kept });
        }
        rest = &rest[end + 1..];
    }
}

/// Decodes and appends one segment. Returns false if it is to be removed.
fn segment(encoded: &[u8], out: &mut Vec<u8>) -> Result<bool, PathError> {
    if encoded.is_empty() {
        return Ok(false);
    }
    let before = out.len();
    if before > 0 {
        out.push(b'/');
    }
    let start = out.len();
    decode(encoded, out)?;
    let name = &out[start..];
    // One pass without an early exit can be vectorized; the reason is determined afterwards.
    if name.iter().fold(false, |bad, &byte| bad | is_refused(byte)) {
        return Err(refusal(name));
    }
    match name {
        b"." => {
            out.truncate(before);
            Ok(false)
        }
        b".." => Err(PathError::Parent),
        b".well-known" if start == 0 => Ok(true),
        [b'.', ..] => Err(PathError::Hidden),
        _ => Ok(true),
    }
}

fn is_refused(byte: u8) -> bool {
    (byte < 0x20) | (byte == 0x7f) | (byte == b'/') | (byte == b'\\')
}

fn refusal(name: &[u8]) -> PathError {
    match name.iter().find(|byte| is_refused(**byte)) {
        Some(b'/') => PathError::Slash,
        Some(b'\\') => PathError::Backslash,
        _ => PathError::Control,
    }
}

/// Decodes percent-encoding, strictly and once.
fn decode(mut rest: &[u8], out: &mut Vec<u8>) -> Result<(), PathError> {
    while let Some(at) = memchr::memchr(b'%', rest) {
        out.extend_from_slice(&rest[..at]);
        let [_, high, low, after @ ..] = &rest[at..] else { return Err(PathError::Escape) };
        let digit = |byte: u8| (byte as char).to_digit(16).ok_or(PathError::Escape);
        out.push((digit(*high)? << 4 | digit(*low)?) as u8);
        rest = after;
    }
    out.extend_from_slice(rest);
    Ok(())
}

/// Bytes that a path contains unencoded: `unreserved` and the harmless ones of `pchar`.
const PATH: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'!')
    .remove(b'$')
    .remove(b'&')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b'+')
    .remove(b',')
    .remove(b';')
    .remove(b'=')
    .remove(b':')
    .remove(b'@')
    .remove(b'/');

/// Bytes that a query in a field value must not contain; the rest is copied from the client.
const QUERY: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'<').add(b'>').add(b'#');

/// Appends the `Location` for a directory that was requested without its trailing slash: `path` (from
/// [`resolve`], hence decoded) encoded between slashes, and the query.
///
/// It has neither scheme nor authority, so it refers to the requested host. It never starts with two slashes
/// or a backslash, which browsers would interpret as another host.
///
/// ```
/// let mut out = Vec::new();
/// phalanx_http::path::redirect_location(b"a b", Some("c=d"), &mut out);
/// assert_eq!(out, b"/a%20b/?c=d");
/// ```
pub fn redirect_location(path: &[u8], query: Option<&str>, out: &mut Vec<u8>) {
    let first = path.iter().position(|&byte| byte != b'/').unwrap_or(path.len());
    let path = path[first..].strip_suffix(b"/").unwrap_or(&path[first..]);
    out.push(b'/');
    encode(path, out);
    if !path.is_empty() {
        out.push(b'/');
    }
    if let Some(query) = query {
        encode_query(query, out);
    }
}

/// Appends a decoded path, percent-encoded for a URL; slashes are kept.
pub fn encode(path: &[u8], out: &mut Vec<u8>) {
    for piece in percent_encode(path, PATH) {
        out.extend_from_slice(piece.as_bytes());
    }
}

/// Appends the path of a request target such that it is valid in a field value. Percent-encoding is kept.
pub fn encode_target(path: &str, out: &mut Vec<u8>) {
    for piece in percent_encode(path.as_bytes(), QUERY) {
        out.extend_from_slice(piece.as_bytes());
    }
}

/// Appends a client's query with its question mark such that it is valid in a field value.
pub fn encode_query(query: &str, out: &mut Vec<u8>) {
    out.push(b'?');
    encode_target(query, out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn paths() {
        use PathError::{Backslash, Control, Escape, Hidden, Parent, Relative, Slash};
        type Found<'a> = Result<(&'a str, bool), PathError>;
        // (path, (file, directory), reason)
        let table: &[(&str, Found<'_>, &str)] = &[
            ("/", Ok(("", true)), "the root"),
            ("/a", Ok(("a", false)), "a file"),
            ("/a/b.html", Ok(("a/b.html", false)), "a file"),
            ("/a/", Ok(("a", true)), "a directory"),
            ("//a///b//", Ok(("a/b", true)), "slashes merge"),
            ("//evil.example/x", Ok(("evil.example/x", false)), "a path, not a host"),
            ("/./a/./b", Ok(("a/b", false)), "RFC 3986, 5.2.4"),
            ("/a/.", Ok(("a", true)), "RFC 3986, 5.2.4: as a/"),
            ("/.", Ok(("", true)), "RFC 3986, 5.2.4"),
            ("/%2e/a", Ok(("a", false)), "RFC 3986, 6.2.2: decoded, then dropped"),
            ("/%66oo", Ok(("foo", false)), "RFC 3986, 6.2.2.2"),
            ("/a%20b", Ok(("a b", false)), "RFC 3986, 2.1"),
            ("/%C3%A9", Ok(("\u{e9}", false)), "RFC 3986, 2.1"),
            ("/\u{e9}", Ok(("\u{e9}", false)), "raw UTF-8"),
            ("/a+b", Ok(("a+b", false)), "a plus is a plus outside forms"),
            ("/a;b=c", Ok(("a;b=c", false)), "RFC 3986, 3.3: parameters are part of the name"),
            ("/a%3Fb", Ok(("a?b", false)), "an encoded question mark is in the name"),
            ("/%2541", Ok(("%41", false)), "decoded once only"),
            ("/%252e%252e/a", Ok(("%2e%2e/a", false)), "decoded once only"),
            ("/a..b", Ok(("a..b", false)), "dots within are harmless"),
            ("/a.", Ok(("a.", false)), "dots at the end are harmless"),
            ("/.well-known/x", Ok((".well-known/x", false)), "RFC 8615"),
            ("/./.well-known/", Ok((".well-known", true)), "RFC 8615"),
            ("/a/.well-known", Err(Hidden), "RFC 8615: at the top only"),
            ("/.git/config", Err(Hidden), "dot files are private"),
            ("/a/.htaccess", Err(Hidden), "dot files are private"),
            ("/%2ehtaccess", Err(Hidden), "decoded first"),
            ("/...", Err(Hidden), "no dots in front at all"),
            ("/..", Err(Parent), "traversal"),
            ("/../etc/passwd", Err(Parent), "traversal"),
            ("/a/../b", Err(Parent), "even where it stays within"),
            ("/a/%2e%2e/b", Err(Parent), "decoded first"),
            ("/a/.%2E", Err(Parent), "decoded first"),
            ("/%2e%2e%2fetc", Err(Slash), "an encoded slash separates nothing"),
            ("/a%2fb", Err(Slash), "an encoded slash separates nothing"),
            ("/..%5cetc", Err(Backslash), "a separator on Windows"),
            ("/a\\b", Err(Backslash), "a separator on Windows"),
            ("/a%00.html", Err(Control), "NUL ends C strings"),
            ("/a%0d%0ab", Err(Control), "header injection"),
            ("/a%7f", Err(Control), "DEL"),
            ("/a\tb", Err(Control), "a tab"),
            ("/%zz", Err(Escape), "RFC 3986, 2.1"),
            ("/%", Err(Escape), "RFC 3986, 2.1"),
            ("/%4", Err(Escape), "RFC 3986, 2.1"),
            ("/%4/1", Err(Escape), "an escape does not span a slash"),
            ("/%+1", Err(Escape), "RFC 3986, 2.1: two digits"),
            ("/%u0041", Err(Escape), "no such escape"),
            ("", Err(Relative), "RFC 9112, 3.2.1"),
            ("*", Err(Relative), "RFC 9112, 3.2.4"),
            ("a/b", Err(Relative), "RFC 9112, 3.2.1"),
        ];
        let mut out = Vec::new();
        for (path, expected, reason) in table {
            let found = resolve(path.as_bytes(), &mut out).map(|found| (&out[..], found.directory));
            let expected = expected.map(|(path, directory)| (path.as_bytes(), directory));
            assert_eq!(found, expected, "{path:?}: {reason}");
        }
        assert_eq!(resolve(b"/%ff", &mut out), Ok(Resolved { directory: false }));
        assert_eq!(out, b"\xff", "names need not be UTF-8");
    }

    #[test]
    fn locations() {
        // (path, query, location, reason)
        let table: &[(&str, Option<&str>, &str, &str)] = &[
            ("a", None, "/a/", "the slash is added"),
            ("a/b", Some("c=d&e"), "/a/b/?c=d&e", "the query is kept"),
            ("a b%", None, "/a%20b%25/", "encoded again"),
            ("", Some("x"), "/?x", "the root"),
            ("/evil.example", None, "/evil.example/", "never two slashes in front"),
            ("///evil.example", None, "/evil.example/", "never two slashes in front"),
            ("\\evil.example", None, "/%5Cevil.example/", "nor a backslash"),
            ("a\r\nX: y", Some("b\r\nX: y"), "/a%0D%0AX:%20y/?b%0D%0AX:%20y", "no injection"),
            ("http://evil", None, "/http://evil/", "a path, not a scheme"),
        ];
        for (path, query, expected, reason) in table {
            let mut out = Vec::new();
            redirect_location(path.as_bytes(), *query, &mut out);
            assert_eq!(str::from_utf8(&out), Ok(*expected), "{reason}");
        }
    }

    fn check(path: &[u8]) -> Result<(), TestCaseError> {
        let mut out = b"left over".to_vec();
        let Ok(resolved) = resolve(path, &mut out) else { return Ok(()) };
        prop_assert!(out.len() <= path.len());
        prop_assert!(!out.iter().any(|byte| byte.is_ascii_control() || *byte == b'\\'));
        if out.is_empty() {
            prop_assert!(resolved.directory);
        } else {
            for (at, name) in out.split(|&byte| byte == b'/').enumerate() {
                prop_assert!(!name.is_empty());
                prop_assert!(name[0] != b'.' || (at == 0 && name == b".well-known"));
            }
        }
        // It decodes to the same path.
        let mut location = Vec::new();
        redirect_location(&out, None, &mut location);
        prop_assert!(location.starts_with(b"/") && !location.starts_with(b"//"));
        let mut resolved_again = Vec::new();
        prop_assert_eq!(resolve(&location, &mut resolved_again), Ok(Resolved { directory: true }));
        prop_assert_eq!(resolved_again, out);
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn any_bytes_stay_within(path in prop::collection::vec(any::<u8>(), 0..64)) {
            check(&[b"/", &path[..]].concat())?;
        }

        #[test]
        fn tricky_paths_stay_within(
            path in "(/|\\.|a|%2e|%2E|%2f|%5c|%00|%25|%2|\\\\|\\.\\.|\\.well-known){0,12}",
        ) {
            check(format!("/{path}").as_bytes())?;
        }
    }
}
