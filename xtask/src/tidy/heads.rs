//! Every crate says at its top what it is for.

use super::{Fault, Tree};

/// Finds crate roots that do not begin with a `//!` comment.
pub(crate) fn check(tree: &Tree) -> Vec<Fault> {
    let roots = tree
        .rust()
        .filter(|(path, _)| path.ends_with("src/lib.rs") || path.ends_with("src/main.rs"));
    roots
        .filter(|(_, text)| !text.starts_with("//!"))
        .map(|(path, _)| {
            Fault::new(path, 1, "the crate does not say what it is for; begin with a `//!` comment")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_without_a_word_are_found() {
        let tree = Tree::of(&[
            ("crates/a/src/lib.rs", "//! A."),
            ("crates/b/src/lib.rs", "mod b;\n//! B."),
            ("crates/a/src/other.rs", "mod c;"),
        ]);
        let faults = check(&tree);
        assert!(faults.len() == 1 && faults[0].path == "crates/b/src/lib.rs");
    }
}
