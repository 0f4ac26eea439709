//! `unsafe` is confined to listed files, each with a safety argument in its top doc comment.

use super::read::source::{code, has_word};
use super::{Fault, Tree};

/// The list of those files: a path, two or more spaces, the reason.
const TABLE: &str = "xtask/unsafe.txt";

/// Finds `unsafe` outside the listed files, listed files without an argument, and stale entries.
pub(crate) fn check(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    let table = tree.text(TABLE).unwrap_or_default();
    let mut accesses_found = Vec::new();
    for (i, entry) in table.lines().enumerate() {
        let entry = entry.trim();
        if entry.is_empty() || entry.starts_with('#') {
            continue;
        }
        let (path, reason) = entry.split_once(char::is_whitespace).unwrap_or((entry, ""));
        let stale = tree.text(path).is_none_or(|text| first_use(text).is_none());
        if stale {
            let message =
                format!("`{path}` does not exist or contains no `unsafe`; remove the line");
            faults.push(Fault::new(TABLE, i + 1, message));
        } else if reason.trim().is_empty() {
            faults.push(Fault::new(TABLE, i + 1, format!("`{path}` has no reason; add one")));
        }
        accesses_found.push(path);
    }
    for (path, text) in tree.rust() {
        let Some(line) = first_use(text) else { continue };
        if !accesses_found.contains(&path) {
            let message = format!(
                "`unsafe` in a file that {TABLE} does not list; remove it or list the file"
            );
            faults.push(Fault::new(path, line, message));
        } else if !argues(text) {
            let message = "no safety argument in this file; add one to its top doc comment, \
                        under `//! # Safety`";
            faults.push(Fault::new(path, 1, message));
        }
    }
    faults
}

/// The first line, counted from 1, that contains the keyword.
fn first_use(text: &str) -> Option<usize> {
    code(text).lines().position(|line| has_word(line, "unsafe")).map(|i| i + 1)
}

/// Whether the top doc comment has a heading about safety.
fn argues(text: &str) -> bool {
    let top = text.lines().take_while(|line| line.is_empty() || line.starts_with("//"));
    top.filter(|line| line.starts_with("//!")).any(|line| line.contains("Safety"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARGUED: &str = "//! A slab.\n//!\n//! # Safety\n//!\n//! Because.\n\nunsafe fn f() {}\n";

    fn faults(files: &[(&str, &str)]) -> Vec<String> {
        check(&Tree::from_files(files)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn listed_files_with_an_argument_are_allowed() {
        let table = (TABLE, "# path  reason\n\na.rs  slots are initialised lazily\n");
        assert_eq!(
            faults(&[table, ("a.rs", ARGUED), ("b.rs", "// unsafe\n#![deny(unsafe_code)]")]),
            [""; 0]
        );
    }

    #[test]
    fn unlisted_files_are_found() {
        let found = faults(&[("a.rs", ARGUED)]);
        assert!(found.len() == 1 && found[0].starts_with("a.rs:7: "), "{found:?}");
    }

    #[test]
    fn missing_arguments_are_found() {
        let found = faults(&[
            (TABLE, "a.rs  reason"),
            ("a.rs", "//! A slab.\nunsafe fn f() {}\n//! Safety\n"),
        ]);
        assert!(found.len() == 1 && found[0].starts_with("a.rs:1: "), "{found:?}");
    }

    #[test]
    fn stale_and_bare_entries_are_found() {
        let table = (TABLE, "gone.rs  reason\nsafe.rs  reason\na.rs\n");
        let found = faults(&[table, ("safe.rs", "fn f() {}"), ("a.rs", ARGUED)]);
        let lines: Vec<_> = found.iter().map(|f| f.split(": ").next()).collect();
        assert_eq!(
            lines,
            [1, 2, 3].map(|n| format!("{TABLE}:{n}")).each_ref().map(|s| Some(s.as_str()))
        );
    }
}
