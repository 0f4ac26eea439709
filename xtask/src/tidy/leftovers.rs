//! Source files contain no unfinished work; it belongs in an issue.

use super::read::source::{code, has_word};
use super::{Fault, Tree};

/// This file, which contains the words itself.
const THIS_FILE: &str = "xtask/src/tidy/leftovers.rs";

/// Words that mark unfinished work, in any text file.
const WORDS: &[&str] = &["TODO", "FIXME", "XXX"];

/// Rust code that marks unfinished work.
const CODE: &[&str] = &["todo!(", "unimplemented!(", "dbg!(", "#[ignore"];

/// Line prefixes of unresolved merge conflicts.
const MARKS: &[&str] = &["<<<<<<< ", ">>>>>>> "];

/// Finds markers of unfinished work.
pub(crate) fn check(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (path, text) in
        tree.texts().filter(|(path, _)| *path != THIS_FILE && !path.ends_with(".lock"))
    {
        let code = if path.ends_with(".rs") { code(text) } else { String::new() };
        let mut code_lines = code.lines();
        for (i, line) in text.lines().enumerate() {
            let words = WORDS.iter().filter(|word| has_word(line, word));
            let marks = MARKS.iter().filter(|mark| line.starts_with(**mark));
            let code = code_lines.next().unwrap_or_default();
            let in_code = CODE.iter().filter(|piece| code.contains(**piece));
            faults.extend(words.chain(marks).chain(in_code).map(|left| {
                Fault::new(
                    path,
                    i + 1,
                    format!("unfinished work (`{left}`); finish it or open an issue"),
                )
            }));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leftovers_are_found() {
        let rust = "// TODO: this\nfn f() { todo!() }\n#[ignore = \"slow\"]\nfn g() { dbg!(1); }\n";
        let tree = Tree::from_files(&[("a.rs", rust), ("b.md", "\nFIXME"), ("c.sh", "# XXX")]);
        let lines: Vec<_> = check(&tree).into_iter().map(|f| (f.path, f.line)).collect();
        let expected =
            [("a.rs", 1), ("a.rs", 2), ("a.rs", 3), ("a.rs", 4), ("b.md", 2), ("c.sh", 1)];
        assert_eq!(lines, expected.map(|(path, line)| (path.to_owned(), line)));
    }

    #[test]
    fn unfinished_merges_are_found() {
        let tree = Tree::from_files(&[("run", "a\n<<<<<<< HEAD\nb\n=======\nc\n>>>>>>> 123\n")]);
        let lines: Vec<_> = check(&tree).into_iter().map(|fault| fault.line).collect();
        assert_eq!(lines, [2, 6]);
    }

    #[test]
    fn similar_text_is_not_reported() {
        let tree = Tree::from_files(&[
            ("a.rs", "// no todo!() here\nlet a = \"dbg!(\";"),
            ("b", "mktemp XXXXXX"),
        ]);
        assert_eq!(check(&tree), []);
    }
}
