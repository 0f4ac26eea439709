//! Request paths as an upstream server may interpret them.

use crate::path::{PathError, Resolved, decode, is_refused};

/// Like [`resolve`](super::resolve), but for a path that an upstream server may interpret more loosely: encoded slashes
/// and backslashes separate segments, and a segment may start with a dot.
///
/// # Errors
/// A [`PathError`], except those for these three cases; the content of `out` is then unspecified.
///
/// ```
/// use phalanx_http::path::resolve_loosely;
///
/// let mut out = Vec::new();
/// assert!(resolve_loosely(b"/a%2fb%5c.git/", &mut out)?.directory);
/// assert_eq!(out, b"a/b/.git");
/// # Ok::<(), phalanx_http::path::PathError>(())
/// ```
pub fn resolve_loosely(path: &[u8], out: &mut Vec<u8>) -> Result<Resolved, PathError> {
    let mut decoded = Vec::with_capacity(path.len());
    decode(path.strip_prefix(b"/").ok_or(PathError::Relative)?, &mut decoded)?;
    out.clear();
    let mut directory = true;
    for name in decoded.split(|byte| matches!(byte, b'/' | b'\\')) {
        if name.iter().any(|byte| is_refused(*byte)) {
            return Err(PathError::Control);
        }
        directory = matches!(name, b"" | b".");
        if name == b".." {
            return Err(PathError::Parent);
        }
        if !directory {
            if !out.is_empty() {
                out.push(b'/');
            }
            out.extend_from_slice(name);
        }
    }
    Ok(Resolved { directory })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::path::resolve;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        /// If a path can be resolved, both functions interpret it alike.
        #[test]
        fn loose_resolution_agrees(path in "(/|\\.|a|%2e|%2f|%5c|%00|%25|%2|\\.\\.|\\.git){0,12}") {
            let (mut strict, mut loose) = (Vec::new(), Vec::new());
            let path = format!("/{path}");
            let found = resolve_loosely(path.as_bytes(), &mut loose);
            match resolve(path.as_bytes(), &mut strict) {
                Ok(resolved) => prop_assert_eq!((found, loose), (Ok(resolved), strict)),
                Err(PathError::Control | PathError::Escape) => prop_assert!(found.is_err()),
                Err(_) => (),
            }
        }
    }
}
