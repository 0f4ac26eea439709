//! No trailing white space, and a newline at the end of every file.

use super::{Fault, Tree};

/// Endings of the names of files that people write. Others, such as test data, are as they must be.
const WRITTEN: &[&str] = &[".rs", ".toml", ".md", ".sh", ".py", ".txt"];

/// Parts of a path that say that it is data.
const DATA: &[&str] = &["/fixtures/", "/corpus/", "/data/"];

/// Finds lines that end in white space, and files that do not end in a newline.
pub(crate) fn check(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (path, text) in tree.texts().filter(|(path, text)| is_written(path, text)) {
        for (i, line) in text.split('\n').enumerate() {
            if line.trim_end() != line {
                faults.push(Fault::new(
                    path,
                    i + 1,
                    "white space at the end of the line; remove it",
                ));
            }
        }
        let last = text.lines().count().max(1);
        if text.ends_with("\n\n") {
            faults.push(Fault::new(path, last, "empty lines at the end of the file; remove them"));
        } else if !text.is_empty() && !text.ends_with('\n') {
            faults.push(Fault::new(path, last, "the last line is not ended; add a newline"));
        }
    }
    faults
}

/// Whether a file was written by hand: by its ending, its first line, or as a licence.
fn is_written(path: &str, text: &str) -> bool {
    let written = WRITTEN.iter().any(|ending| path.ends_with(ending));
    let data = DATA.iter().any(|part| path.contains(part));
    (written || text.starts_with("#!") || path.starts_with("LICENSE-")) && !data
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stray_space_is_found() {
        let tree = Tree::of(&[
            ("a.rs", "fn a() {} \n\nfn b() {}\r\n"),
            ("b.md", "no newline"),
            ("c", "#!/bin/sh\n\n"),
            ("d.toml", "fine = 1\n"),
            ("e.json", "{} "),
            ("tests/fixtures/f.txt", "data"),
        ]);
        let found: Vec<_> = check(&tree).into_iter().map(|f| (f.path, f.line)).collect();
        let expected = [("a.rs", 1), ("a.rs", 3), ("b.md", 1), ("c", 2)];
        assert_eq!(found, expected.map(|(path, line)| (path.to_owned(), line)));
    }
}
