//! Every crate begins with a doc comment that states its purpose.

use super::{Fault, Tree};

/// Finds crate roots without a leading `//!` comment.
pub(crate) fn check(tree: &Tree) -> Vec<Fault> {
    let roots = tree
        .rust()
        .filter(|(path, _)| path.ends_with("src/lib.rs") || path.ends_with("src/main.rs"));
    roots
        .filter(|(_, text)| !text.starts_with("//!"))
        .map(|(path, _)| {
            Fault::new(path, 1, "the crate has no documentation; begin with a `//!` comment")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_without_documentation_are_found() {
        let tree = Tree::from_files(&[
            ("crates/a/src/lib.rs", "//! A."),
            ("crates/b/src/lib.rs", "mod b;\n//! B."),
            ("crates/a/src/other.rs", "mod c;"),
        ]);
        let faults = check(&tree);
        assert!(faults.len() == 1 && faults[0].path == "crates/b/src/lib.rs");
    }
}
