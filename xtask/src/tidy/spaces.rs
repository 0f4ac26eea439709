//! Files have no trailing white space and end with a newline.

use super::{Fault, Tree};

/// Extensions of hand-written files. Other files, such as test data, are not checked.
const WRITTEN: &[&str] = &[".rs", ".toml", ".md", ".sh", ".py", ".txt"];

/// Path components of test data.
const DATA: &[&str] = &["/fixtures/", "/corpus/", "/data/"];

/// Finds lines with trailing white space, and files without a final newline.
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
            faults.push(Fault::new(path, last, "no newline at the end of the file; add one"));
        }
    }
    faults
}

/// Whether a file is hand-written, judged by its extension, its first line or its name.
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
        let tree = Tree::from_files(&[
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
