//! Links and paths in the documents have an existing target.
//!
//! Covers relative links in every Markdown file, and in the pages on the architecture also paths between backticks.

use crate::tidy::read::markdown::{Run, anchors, links, runs};
use crate::tidy::{Fault, Tree};

/// The documents whose backticked paths are checked.
const MAPS: [&str; 2] = ["ARCHITECTURE.md", "docs/internals/core.md"];

/// Finds links and paths without a target.
pub(crate) fn check(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (path, text) in tree.texts().filter(|(path, _)| path.ends_with(".md")) {
        for (line, run) in runs(text) {
            match run {
                Run::Prose(prose) => {
                    let dead =
                        links(prose).into_iter().filter(|link| !link_exists(tree, path, link));
                    faults.extend(dead.map(|link| {
                        let message = format!(
                            "the target of the link `{link}` does not exist; correct or remove it"
                        );
                        Fault::new(path, line, message)
                    }));
                }
                Run::Code(code) if MAPS.contains(&path) && !path_exists(tree, code) => {
                    let message = format!("`{code}` does not exist; correct the path");
                    faults.push(Fault::new(path, line, message));
                }
                Run::Code(_) => {}
            }
        }
    }
    faults
}

/// Whether the target of `link` in the document `from` exists, with the heading it names, or is outside the repository.
fn link_exists(tree: &Tree, from: &str, link: &str) -> bool {
    if link.contains("://") || link.starts_with("mailto:") {
        return true;
    }
    let (target, anchor) = link.split_once('#').unwrap_or((link, ""));
    let mut parts: Vec<&str> = from.split('/').collect();
    if !target.is_empty() {
        parts.pop();
    }
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.pop().is_none() => return false,
            ".." => {}
            name => parts.push(name),
        }
    }
    let path = parts.join("/");
    let has_anchor = |text: &str| anchor.is_empty() || anchors(text).iter().any(|a| a == anchor);
    tree.exists(&path) && (!path.ends_with(".md") || tree.text(&path).is_none_or(has_anchor))
}

/// Whether `code` exists as a path in the repository, or does not look like one.
///
/// A path that begins with a top-level folder must be complete. Another `.rs` path may be the end of a path, so
/// `poll/readiness.rs` suffices where the crate is clear.
fn path_exists(tree: &Tree, code: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
    if code.starts_with(['/', '.']) && !code.starts_with(".c") || !code.chars().all(is_plain) {
        return true;
    }
    if let Some((top, _)) = code.split_once('/')
        && tree.exists(&format!("{top}/"))
    {
        return tree.exists(code);
    }
    let ending = format!("/{code}");
    !code.ends_with(".rs") || tree.paths().any(|path| path == code || path.ends_with(&ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(path: &str, text: &str) -> Vec<usize> {
        let others =
            [("docs/tuning.md", "# Top"), ("crates/driver/src/poll/mod.rs", ""), (".ci/run", "")];
        let mut files = others.to_vec();
        files.push((path, text));
        check(&Tree::from_files(&files)).into_iter().map(|f| f.line).collect()
    }

    #[test]
    fn links_are_relative_to_their_file() {
        assert_eq!(
            faults(
                "README.md",
                "[a](docs/tuning.md#top) [b](docs/) [c](#d) [e](https://f.g/h.md)\n# D"
            ),
            [0; 0]
        );
        assert_eq!(faults("README.md", "[a](docs/tuning.md#bottom)\n[b](#none)\n# D"), [1, 2]);
        assert_eq!(
            faults("docs/a.md", "[a](tuning.md)\n[b](../docs/tuning.md)\n[c](../.ci/run)"),
            [0; 0]
        );
        assert_eq!(
            faults("docs/a.md", "[a](docs/tuning.md)\n[b](tune.md)\n[c](../../x)"),
            [1, 2, 3]
        );
        assert_eq!(faults("README.md", "`[a](b.md)`\n```\n[a](b.md)\n```"), [0; 0]);
    }

    #[test]
    fn the_map_names_only_existing_paths() {
        let lives = "`crates/driver/src/poll/`, `poll/mod.rs`, `mod.rs`, `.ci/run`, `and/or`, `a::b`, `/proc/x.rs`";
        let dead = "`crates/driver/src/uring.rs`\n`uring/mod.rs`\n`docs/x`\n`od.rs`";
        for map in MAPS {
            assert_eq!(faults(map, lives), [0; 0]);
            assert_eq!(faults(map, dead), [1, 2, 3, 4]);
        }
        assert_eq!(faults("README.md", "`docs/x`"), [0; 0]);
    }
}
