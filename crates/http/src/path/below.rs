//! Prefixes of request paths.

use percent_encoding::percent_decode_str;

/// The part of `path`, a path as clients send it, after `prefix`: empty, or with a leading slash. `None` unless
/// [`resolve`](super::resolve) interprets the path as the prefix or as a path below it. The prefix is a plain path
/// without a trailing slash, or `/` for all paths.
///
/// ```
/// use phalanx_http::path::below;
///
/// assert_eq!(below("/api/a%20b", "/api"), Some("/a%20b"));
/// assert_eq!(below("//%61pi", "/api"), Some(""));
/// assert_eq!(below("/apis", "/api"), None);
/// ```
pub fn below<'a>(path: &'a str, prefix: &str) -> Option<&'a str> {
    let mut rest = path.starts_with('/').then_some(path)?;
    if prefix == "/" {
        return Some(rest);
    }
    for expected in prefix.split('/').filter(|segment| !segment.is_empty()) {
        loop {
            let segment = rest.strip_prefix('/')?;
            let (name, after) = segment.split_at(segment.find('/').unwrap_or(segment.len()));
            rest = after;
            // Resolving a path removes such segments.
            if name.is_empty() || is_encoded(name, ".") {
                continue;
            }
            if !is_encoded(name, expected) {
                return None;
            }
            break;
        }
    }
    Some(rest)
}

/// Whether a segment decodes to this plain text.
fn is_encoded(segment: &str, decoded: &str) -> bool {
    segment == decoded || segment.contains('%') && percent_decode_str(segment).eq(decoded.bytes())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::path::resolve;

    /// Checks that the prefix of a path is found in the same way as the path is resolved.
    fn check_below(path: &str) -> Result<(), TestCaseError> {
        let mut out = Vec::new();
        let Ok(_) = resolve(path.as_bytes(), &mut out) else { return Ok(()) };
        for prefix in ["/a", "/a/b", "/.well-known", "/"] {
            let plain = prefix.trim_matches('/').as_bytes();
            let is_below = out
                .strip_prefix(plain)
                .is_some_and(|rest| plain.is_empty() || rest.is_empty() || rest.starts_with(b"/"));
            let rest = below(path, prefix);
            prop_assert_eq!(rest.is_some(), is_below, "{} {}", prefix, path);
            if let Some(rest) = rest.filter(|rest| !rest.is_empty()) {
                prop_assert!(rest.starts_with('/') && path.ends_with(rest));
                let mut owned = Vec::new();
                prop_assert!(resolve(rest.as_bytes(), &mut owned).is_ok() && out.ends_with(&owned));
            }
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn prefixes_are_found(path in "(/|/|\\.|a|b|%61|%2e|%2f|%6|\\.\\.|\\.well-known){0,8}") {
            check_below(&format!("/{path}"))?;
        }
    }
}
