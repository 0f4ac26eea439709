//! Sources of segments for recovery.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// A set of named files to recover from.
///
/// Implemented by a directory, and by a map from names to contents for simulated power failures.
pub trait Source {
    /// The names of all files.
    ///
    /// # Errors
    /// If the names cannot be listed.
    fn names(&self) -> io::Result<Vec<String>>;

    /// The first `most` bytes of a file, or all if it is shorter.
    ///
    /// # Errors
    /// If the file cannot be read.
    fn read(&self, name: &str, most: u64) -> io::Result<Vec<u8>>;
}

/// A directory of the file system.
pub(crate) struct Directory(pub(crate) PathBuf);

impl Source for Directory {
    fn names(&self) -> io::Result<Vec<String>> {
        let names = std::fs::read_dir(&self.0)?.map(|entry| Ok(entry?.file_name().into_string()));
        // Names that are not UTF-8 belong to other programs.
        names
            .filter_map(|name: io::Result<Result<String, _>>| name.map(Result::ok).transpose())
            .collect()
    }

    fn read(&self, name: &str, most: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        File::open(self.0.join(name))?.take(most).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

impl Source for BTreeMap<String, Vec<u8>> {
    fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.keys().cloned().collect())
    }

    fn read(&self, name: &str, most: u64) -> io::Result<Vec<u8>> {
        let bytes = self.get(name).ok_or(io::ErrorKind::NotFound)?;
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        Ok(bytes[..bytes.len().min(most)].to_vec())
    }
}

const SUFFIX: &str = ".journal";

/// The file name of segment `number`.
pub(crate) fn segment_name(number: u64) -> String {
    format!("{number:012}{SUFFIX}")
}

/// The segment number in a file name; `None` for other files.
pub(crate) fn segment_number(name: &str) -> Option<u64> {
    let number = name.strip_suffix(SUFFIX)?.parse().ok().filter(|number| *number > 0)?;
    (segment_name(number) == name).then_some(number)
}

/// Whether a file name belongs to the store.
pub(crate) fn is_own(name: &str) -> bool {
    let others = [crate::store::LOCK, crate::position::NAME, crate::reserve::NAME];
    segment_number(name).is_some() || others.contains(&name)
}

/// Deletes a segment. A failure is ignored; the file is deleted at the next start.
pub(crate) fn remove(directory: &Path, number: u64) {
    let _ = std::fs::remove_file(directory.join(segment_name(number)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_are_numbers() {
        for number in [1, 42, 999_999_999_999, u64::MAX] {
            assert_eq!(segment_number(&segment_name(number)), Some(number));
        }
        for name in
            ["lock", "1.journal", "000000000000.journal", "+00000000001.journal", ".journal"]
        {
            assert_eq!(segment_number(name), None, "{name}");
        }
    }
}
