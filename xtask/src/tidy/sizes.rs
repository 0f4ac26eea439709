//! A Rust file has at most 450 lines, tests included.

use super::{Fault, Tree};

/// Maximum number of lines of a file. Aim at a third of it.
const MAX_LINES: usize = 450;

/// Longer files, each with the reason not to split it.
const EXEMPT: &[(&str, &str)] = &[];

/// The file that contains [`EXEMPT`].
const THIS_FILE: &str = "xtask/src/tidy/sizes.rs";

/// Finds files that are too long, and exemptions that are not needed.
pub(crate) fn check(tree: &Tree) -> Vec<Fault> {
    check_against(tree, EXEMPT)
}

/// [`check`] with the given exemptions.
fn check_against(tree: &Tree, longer: &[(&str, &str)]) -> Vec<Fault> {
    let excepted = |path: &str| longer.iter().any(|(name, _)| *name == path);
    let lines = |text: &str| text.lines().count();
    let long = tree.rust().filter(|(path, text)| lines(text) > MAX_LINES && !excepted(path)).map(
        |(path, text)| {
            let message = format!(
                "{} lines, at most {MAX_LINES} are allowed; split the file by responsibility",
                lines(text)
            );
            Fault::new(path, MAX_LINES + 1, message)
        },
    );
    let is_long = |path| tree.text(path).is_some_and(|text| lines(text) > MAX_LINES);
    let stale = longer.iter().filter(|(path, _)| !is_long(path)).map(|(path, _)| {
        Fault::new(
            THIS_FILE,
            1,
            format!("`{path}` is not longer than {MAX_LINES} lines; remove it from the list"),
        )
    });
    long.chain(stale).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_files_and_stale_exceptions_are_found() {
        let (fits, long) = ("\n".repeat(MAX_LINES), "\n".repeat(MAX_LINES + 1));
        let tree = Tree::from_files(&[("a.rs", &fits), ("b.rs", &long), ("c.md", &long)]);
        let faults = check(&tree);
        assert!(faults.len() == 1 && faults[0].path == "b.rs");
        assert_eq!(check_against(&tree, &[("b.rs", "why")]), []);
        assert_eq!(
            check_against(&tree, &[("b.rs", "why"), ("a.rs", "why"), ("d.rs", "why")]).len(),
            2
        );
    }
}
