//! Expands the paths in code: `std::time::{self, Duration}` gives `std::time::self` and `std::time::Duration`.

/// Every path in `code` (see [`super::source::code`]) that begins with `krate`, with its line.
pub(crate) fn from_crate(code: &str, krate: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (at, word) in super::source::words(code) {
        if word == krate
            && !continues(&code[..at])
            // `$crate` in a macro is for the users of the crate, which see its root only.
            && !code[..at].ends_with('$')
            && code[at + word.len()..].trim_start().starts_with("::")
        {
            Reader { code, at: at + word.len() }.tail(krate, at, &mut found);
        }
    }
    found.into_iter().map(|(at, path)| (super::source::line_of(code, at), path)).collect()
}

/// Every path in `code` that begins with `crate` or `super`, as `crate::…`, with its line. `path` is that of the file,
/// relative to `src`.
pub(crate) fn absolute(path: &str, code: &str) -> Vec<(usize, String)> {
    let mut paths = from_crate(code, "crate");
    let stem = path.trim_end_matches(".rs").trim_end_matches("/mod");
    let own_path: Vec<&str> = stem.split('/').collect();
    paths.extend(from_crate(code, "super").into_iter().map(|(line, path)| {
        let (mut rest, mut depth) = (path.as_str(), own_path.len());
        while let Some(tail) = rest.strip_prefix("super::") {
            (rest, depth) = (tail, depth.saturating_sub(1));
        }
        let above =
            own_path[..depth].iter().map(|module| format!("{module}::")).collect::<String>();
        (line, format!("crate::{above}{rest}"))
    }));
    paths.sort();
    paths
}

/// Whether the text after `before` continues a path, as `fs` does in `crate::fs` but not in `::fs`.
pub(crate) fn continues(before: &str) -> bool {
    let in_path = |c: char| c.is_alphanumeric() || matches!(c, '_' | '>');
    before.trim_end().strip_suffix("::").is_some_and(|path| path.ends_with(in_path))
}

/// A position in the code.
#[derive(Clone, Copy, Debug)]
struct Reader<'a> {
    /// The whole text.
    code: &'a str,
    /// Offset of the next byte.
    at: usize,
}

impl Reader<'_> {
    /// Reads the text after the path `path`, which began at `begin`, and adds all paths in it to `found`.
    fn tail(&mut self, path: &str, begin: usize, found: &mut Vec<(usize, String)>) {
        if !self.take("::") {
            found.push((begin, path.to_owned()));
        } else if self.take("{") {
            while !self.take("}") {
                let (before, begin) = (self.at, self.skip());
                self.part(path, begin, found);
                // Skip `as name` and unknown syntax up to the next item.
                let rest =
                    self.code[self.at..].find([',', '}']).unwrap_or(self.code.len() - self.at);
                self.at += rest;
                self.take(",");
                if self.at == before {
                    return;
                }
            }
        } else {
            self.part(path, begin, found);
        }
    }

    /// Reads one path segment and the text after it.
    fn part(&mut self, path: &str, begin: usize, found: &mut Vec<(usize, String)>) {
        let at = self.skip();
        let rest = &self.code[at..];
        match super::source::words(rest).next() {
            Some((0, word)) => {
                self.at = at + word.len();
                self.tail(&format!("{path}::{word}"), begin, found);
            }
            _ if rest.starts_with('*') => found.push((begin, format!("{path}::*"))),
            _ => found.push((begin, path.to_owned())),
        }
    }

    /// Skips `token` if it is next; returns whether it was.
    fn take(&mut self, token: &str) -> bool {
        let at = self.skip();
        let is_next = self.code[at..].starts_with(token);
        if is_next {
            self.at = at + token.len();
        }
        is_next
    }

    /// The offset of the next token.
    fn skip(self) -> usize {
        self.code.len() - self.code[self.at..].trim_start().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(code: &str) -> Vec<String> {
        from_crate(code, "std").into_iter().map(|(_, path)| path).collect()
    }

    #[test]
    fn groups_are_expanded() {
        assert_eq!(
            paths("use std::{time::{self, Duration as D}, fs, collections::*};"),
            ["std::time::self", "std::time::Duration", "std::fs", "std::collections::*"]
        );
    }

    #[test]
    fn expressions_end_where_the_path_does() {
        assert_eq!(
            paths("std::mem::size_of::<u8>(); ::std::fs::read(x)"),
            ["std::mem::size_of", "std::fs::read"]
        );
        assert_eq!(paths("crate::std::fs; my_std::fs; std"), [""; 0]);
    }

    #[test]
    fn relative_paths_become_absolute() {
        let paths = |path| absolute(path, "use super::a::B; use super::super::C; crate::D;");
        let expected = |paths: [&str; 3]| paths.map(|path| (1, path.to_owned()));
        assert_eq!(paths("x/y/z.rs"), expected(["crate::D", "crate::x::C", "crate::x::y::a::B"]));
        assert_eq!(paths("x/y/mod.rs"), expected(["crate::C", "crate::D", "crate::x::a::B"]));
    }

    #[test]
    fn lines_are_those_of_the_item() {
        assert_eq!(from_crate("use std::{\n    fs,\n};", "std"), [(2, "std::fs".to_owned())]);
    }

    #[test]
    fn invalid_code_terminates() {
        assert_eq!(paths("use std::{a, {")[0], "std::a");
    }
}
