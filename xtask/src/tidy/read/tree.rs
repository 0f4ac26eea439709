//! The files of the repository.

use std::collections::BTreeMap;
use std::io::{Error, ErrorKind, Result};
use std::path::Path;
use std::process::Command;

/// Every file that git tracks or would track, with its text.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    /// Path from the root, with `/` separators, to the text; `None` for files that are not UTF-8.
    files: BTreeMap<String, Option<String>>,
}

impl Tree {
    /// Reads the files under `root`. A tracked file that is missing from the work tree is left out.
    ///
    /// # Errors
    ///
    /// When git cannot be run, `root` is not in a repository, or a file cannot be read.
    pub(crate) fn load(root: &Path) -> Result<Self> {
        let listing = Command::new("git")
            .current_dir(root)
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .output()?;
        if !listing.status.success() {
            return Err(Error::other(String::from_utf8_lossy(&listing.stderr).into_owned()));
        }
        let mut files = BTreeMap::new();
        for path in String::from_utf8_lossy(&listing.stdout).split('\0').filter(|p| !p.is_empty()) {
            match std::fs::read(root.join(path)) {
                Ok(bytes) => drop(files.insert(path.to_owned(), String::from_utf8(bytes).ok())),
                // Deleted since it was listed, or a link to a folder.
                Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::IsADirectory) => {}
                Err(e) => return Err(Error::new(e.kind(), format!("{path}: {e}"))),
            }
        }
        Ok(Self { files })
    }

    /// A tree of the given paths and texts.
    #[cfg(test)]
    pub(crate) fn from_files(files: &[(&str, &str)]) -> Self {
        let entry = |(path, text): &(&str, &str)| ((*path).to_owned(), Some((*text).to_owned()));
        Self { files: files.iter().map(entry).collect() }
    }

    /// The number of files.
    pub(crate) fn len(&self) -> usize {
        self.files.len()
    }

    /// All paths in order.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// The text of the file at `path`, if it exists and is UTF-8.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path)?.as_deref()
    }

    /// Path and text of every text file, in order of path.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().filter_map(|(path, text)| Some((path.as_str(), text.as_deref()?)))
    }

    /// Path and text of every Rust file.
    pub(crate) fn rust(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts().filter(|(path, _)| path.ends_with(".rs"))
    }

    /// Whether `path` is a file or a folder that contains one. The root is `""`.
    pub(crate) fn exists(&self, path: &str) -> bool {
        let folder = format!("{}/", path.trim_end_matches('/'));
        path.is_empty()
            || self.files.contains_key(path)
            || self
                .files
                .range(folder.clone()..)
                .next()
                .is_some_and(|(p, _)| p.starts_with(&folder))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_exist_when_a_file_lies_in_them() {
        let tree = Tree::from_files(&[("docs/tuning.md", ""), ("docs-old/a.md", "")]);
        assert!(tree.exists("docs") && tree.exists("docs/") && tree.exists("docs/tuning.md"));
        assert!(
            !tree.exists("doc") && !tree.exists("docs/tuning.md/") && !tree.exists("docs/tune.md")
        );
    }

    #[test]
    fn the_repository_itself_can_be_read() {
        let tree = Tree::load(&crate::root()).expect("this test runs in the repository");
        assert!(
            tree.text("xtask/src/tidy/read/tree.rs").is_some_and(|text| text.contains("ls-files"))
        );
    }
}
