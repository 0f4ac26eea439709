//! Path patterns of rules.

use fast_glob::{glob_match, validate};

/// A path pattern. Most are literal paths or prefixes, which cost one comparison.
#[derive(Clone)]
pub(super) enum Pattern {
    Exact(Box<[u8]>),
    /// A path without a trailing slash, and everything below it.
    Beneath(Box<[u8]>),
    Glob(Box<str>),
}

impl Pattern {
    /// Compiles a pattern: a path, `/path/**`, a glob over whole paths, or a glob without slashes over file
    /// names. The error describes what was expected.
    pub(super) fn new(text: &str) -> Result<Self, String> {
        let plain = |text: &str| !text.contains(['*', '?', '[', '{', '\\']);
        if text.is_empty()
            || text.contains('/') && !text.starts_with('/') && !text.starts_with("**/")
        {
            let expected = "a glob such as \"/assets/**\" or \"*.html\"";
            return Err(format!("found {text:?}, expected {expected}"));
        }
        if let Some(path) = text.strip_suffix("/**").filter(|path| plain(path)) {
            return Ok(Self::Beneath(path.as_bytes().into()));
        }
        if text.starts_with('/') && plain(text) {
            return Ok(Self::Exact(text.as_bytes().into()));
        }
        let anywhere = if text.contains('/') { "" } else { "**/" };
        let glob = [anywhere, text].concat();
        match validate(text) {
            Ok(()) => Ok(Self::Glob(glob.into())),
            Err(error) => Err(format!("found {text:?}, which is not a valid glob: {error}")),
        }
    }

    /// Matches `path`, which has a leading slash. Returns the part that `/**` matched.
    pub(super) fn matches<'p>(&self, path: &'p [u8]) -> Option<&'p [u8]> {
        match self {
            Self::Exact(exact) => (**exact == *path).then_some(&[]),
            Self::Beneath(prefix) => match path.strip_prefix(&**prefix)? {
                [b'/', rest @ ..] => Some(rest),
                [] => Some(&[]),
                _ => None,
            },
            Self::Glob(glob) => glob_match(&**glob, path).then_some(&[]),
        }
    }

    /// Whether a path may match if each of its slashes may be a separator or part of a segment.
    pub(super) fn may_match(&self, path: &[u8]) -> bool {
        match self {
            Self::Exact(_) | Self::Beneath(_) => self.matches(path).is_some(),
            // After the literal part, a match depends on where segments end, because a star matches only within a
            // segment.
            Self::Glob(glob) => {
                let plain = glob.find(['*', '?', '[', '{', '\\', '!']).unwrap_or(glob.len());
                path.starts_with(glob[..plain].as_bytes())
            }
        }
    }

    /// Whether `$rest` is available.
    pub(super) fn has_rest(&self) -> bool {
        matches!(self, Self::Beneath(_))
    }
}

/// A resolved path with its leading and trailing slashes, as a client would request it.
pub(super) fn absolute(path: &[u8], directory: bool) -> Vec<u8> {
    let mut absolute = Vec::with_capacity(path.len() + 2);
    absolute.push(b'/');
    absolute.extend_from_slice(path);
    if directory && !path.is_empty() {
        absolute.push(b'/');
    }
    absolute
}

#[cfg(test)]
mod tests {
    use super::Pattern;

    #[test]
    fn patterns_match_paths() {
        // (pattern, path, rest)
        let table: &[(&str, &str, Option<&str>)] = &[
            ("/a", "/a", Some("")),
            ("/a", "/a/", None),
            ("/a", "/ab", None),
            ("/a/**", "/a/b/c", Some("b/c")),
            ("/a/**", "/a/", Some("")),
            ("/a/**", "/a", Some("")),
            ("/a/**", "/ab", None),
            ("/**", "/", Some("")),
            ("/**", "/x/y", Some("x/y")),
            ("*.html", "/a.html", Some("")),
            ("*.html", "/x/y/a.html", Some("")),
            ("*.html", "/a.html/b", None),
            ("/*.html", "/a.html", Some("")),
            ("/*.html", "/x/a.html", None),
            ("/img/**/*.{png,jpg}", "/img/a/b/c.png", Some("")),
            ("/img/**/*.{png,jpg}", "/img/c.gif", None),
            ("/v?", "/v1", Some("")),
            ("/v?", "/v/", None),
            ("/v[0-9]", "/v7", Some("")),
            ("/v[!0-9]", "/v7", None),
            ("!a", "/b", None),
            ("/\\*", "/*", Some("")),
        ];
        for (pattern, path, wanted) in table {
            let found = Pattern::new(pattern).unwrap();
            let found = found.matches(path.as_bytes());
            assert_eq!(found, wanted.map(str::as_bytes), "{pattern} {path}");
        }
        for (pattern, path, wanted) in [
            ("/a/**", "/a/b", true),
            ("/a/**", "/b/a", false),
            ("/a/b", "/a/b", true),
            ("*.php", "/x/y", true),
            ("/img/*.png", "/img/a/b.png", true),
            ("/img/*.png", "/api/a.png", false),
        ] {
            let found = Pattern::new(pattern).unwrap().may_match(path.as_bytes());
            assert_eq!(found, wanted, "{pattern} {path}");
        }
        for invalid in ["", "a/b", "[", "/a{"] {
            assert!(Pattern::new(invalid).is_err(), "{invalid}");
        }
    }
}
