//! Every Rust block in the documentation is compiled: the page runs as doctests, or the block quotes a source
//! file.
//!
//! A page runs as doctests when the `docs.rs` of one of a few crates includes it. Otherwise a Rust block follows a line
//! `<!-- from path/of/the/file.rs -->`, and its lines are a contiguous part of that file.

use crate::tidy::{Fault, Tree};

/// The file that includes most pages as doctests.
const RUN: &str = "crates/phalanx/src/docs.rs";

/// The same for crates that it does not depend on.
const RUN_TOO: [&str; 3] =
    ["crates/axum/src/docs.rs", "crates/matcher/src/docs.rs", "crates/postgres/src/docs.rs"];

/// Finds Rust blocks that are neither doctests nor quotes.
pub(crate) fn check(tree: &Tree) -> Vec<Fault> {
    let files = [RUN].into_iter().chain(RUN_TOO);
    let runs: Vec<_> = files.map(|file| tree.text(file).unwrap_or_default()).collect();
    let is_page = |path: &str| {
        path.ends_with(".md") && (path.starts_with("docs/") || path.starts_with("examples/"))
    };
    let pages = tree.texts().filter(|(path, _)| is_page(path));
    pages
        .filter(|(path, _)| !runs.iter().any(|run| run.contains(&format!("/../{path}\""))))
        .flat_map(|(path, text)| check_page(tree, path, text))
        .collect()
}

fn check_page(tree: &Tree, path: &str, text: &str) -> Vec<Fault> {
    let lines: Vec<&str> = text.lines().collect();
    let mut faults = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        if !lines[at].trim_start().starts_with("```rust") {
            at += 1;
            continue;
        }
        let fault = |message: String| Fault::new(path, at + 1, message);
        let length = lines[at + 1..].iter().take_while(|line| !line.starts_with("```")).count();
        let block = &lines[at + 1..at + 1 + length];
        let from = at.checked_sub(1).and_then(|above| lines[above].strip_prefix("<!-- from "));
        match from.and_then(|from| from.strip_suffix(" -->")) {
            None => faults.push(fault(format!(
                "this code is not compiled; add `<!-- from FILE -->` above it, or include the page in {RUN}"
            ))),
            Some(file) => match tree.text(file) {
                None => faults.push(fault(format!("`{file}` does not exist"))),
                Some(source) if !has_lines(source, block) => {
                    faults.push(fault(format!("the block differs from `{file}`; copy it again")));
                }
                Some(_) => (),
            },
        }
        at += length + 2;
    }
    faults
}

/// Whether `source` contains the lines of `block` contiguously.
fn has_lines(source: &str, block: &[&str]) -> bool {
    let source: Vec<&str> = source.lines().collect();
    !block.is_empty() && source.windows(block.len()).any(|lines| lines == block)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(page: &str) -> Vec<usize> {
        let run = "#[doc = include_str!(\"../../../docs/run.md\")]";
        let source = "fn a() {\n    b();\n    c();\n}\n";
        let any = "```rust\nanything\n```\n";
        let files = [(RUN, run), ("a.rs", source), ("docs/run.md", any), ("docs/page.md", page)];
        check(&Tree::from_files(&files)).into_iter().map(|fault| fault.line).collect()
    }

    #[test]
    fn blocks_must_equal_the_file() {
        assert_eq!(faults("<!-- from a.rs -->\n```rust\n    b();\n    c();\n```\n"), [0; 0]);
        assert_eq!(faults("```sh\nls\n```\n"), [0; 0]);
        assert_eq!(faults("text\n\n```rust\n    b();\n```\n"), [3]);
        assert_eq!(faults("<!-- from a.rs -->\n```rust\n    b();\n}\n```\n"), [2]);
        assert_eq!(faults("<!-- from a.rs -->\n```rust\n    b()\n```\n"), [2]);
        assert_eq!(faults("<!-- from b.rs -->\n```rust\n    b();\n```\n"), [2]);
        assert_eq!(faults("<!-- from a.rs -->\n```rust\n```\n```rust,ignore\nx\n```"), [2, 4]);
    }
}
