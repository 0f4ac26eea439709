//! Folders of files to serve.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

/// A folder that is removed after the test.
pub(crate) struct Site(TempDir);

impl Site {
    /// An empty folder within another folder of the test: see [`Site::outside`].
    pub(crate) fn new() -> Self {
        let site = Self(tempfile::tempdir().unwrap());
        fs::create_dir(site.root()).unwrap();
        site
    }

    /// The folder to serve.
    pub(crate) fn root(&self) -> PathBuf {
        self.0.path().join("root")
    }

    /// A folder that must not be served.
    pub(crate) fn outside(&self) -> &Path {
        self.0.path()
    }

    /// Writes a file with a modification time an hour ago; one of the current second has only a weak tag.
    pub(crate) fn file(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        age(&path, 3600);
        path
    }
}

/// Sets the modification time of a file to `seconds` ago.
pub(crate) fn age(path: &Path, seconds: u64) {
    let then = SystemTime::now() - Duration::from_secs(seconds);
    File::options().write(true).open(path).unwrap().set_modified(then).unwrap();
}

/// Pseudo-random bytes that depend on the seed (xorshift).
pub(crate) fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = vec![0; length.next_multiple_of(8)];
    // Few iterators within the loop: tests are compiled without optimisation.
    for word in bytes.chunks_exact_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        word.copy_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// Compares without printing megabytes.
#[track_caller]
pub(crate) fn same(found: &[u8], wanted: &[u8]) {
    assert_eq!(found.len(), wanted.len(), "lengths differ");
    if found != wanted {
        let differs = found.iter().zip(wanted).position(|(a, b)| a != b);
        panic!("the first difference is at {differs:?}");
    }
}
