//! One idea per file: a Rust file of more than 450 lines, tests included, holds more than one.

use super::{Fault, Tree};

/// The most lines a file may have. Aim at a third of it.
const MAX_LINES: usize = 450;

/// Files that are longer, and why that is better than splitting them.
const EXEMPT: &[(&str, &str)] = &[];

/// Where [`EXEMPT`] stands.
const THIS_FILE: &str = "xtask/src/tidy/sizes.rs";

/// Finds files that are too long, and exceptions that no longer are.
pub(crate) fn check(tree: &Tree) -> Vec<Fault> {
    check_against(tree, EXEMPT)
}

/// [`check`] with these exceptions.
fn check_against(tree: &Tree, longer: &[(&str, &str)]) -> Vec<Fault> {
    let excepted = |path: &str| longer.iter().any(|(name, _)| *name == path);
    let lines = |text: &str| text.lines().count();
    let long = tree.rust().filter(|(path, text)| lines(text) > MAX_LINES && !excepted(path)).map(
        |(path, text)| {
            let what = format!("{} lines, {MAX_LINES} at most; split it by ideas", lines(text));
            Fault::new(path, MAX_LINES + 1, what)
        },
    );
    let is_long = |path| tree.text(path).is_some_and(|text| lines(text) > MAX_LINES);
    let stale = longer.iter().filter(|(path, _)| !is_long(path)).map(|(path, _)| {
        Fault::new(
            THIS_FILE,
            1,
            format!("`{path}` is not longer than {MAX_LINES} lines; strike it off the list"),
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
        let tree = Tree::of(&[("a.rs", &fits), ("b.rs", &long), ("c.md", &long)]);
        let faults = check(&tree);
        assert!(faults.len() == 1 && faults[0].path == "b.rs");
        assert_eq!(check_against(&tree, &[("b.rs", "why")]), []);
        assert_eq!(
            check_against(&tree, &[("b.rs", "why"), ("a.rs", "why"), ("d.rs", "why")]).len(),
            2
        );
    }
}
