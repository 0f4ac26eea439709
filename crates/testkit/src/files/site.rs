//! Folders of files to serve.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

/// A folder that is removed after the test.
#[derive(Debug)]
pub struct Site(TempDir);

impl Site {
    /// An empty folder within another folder of the test: see [`Site::outside`].
    #[expect(clippy::new_without_default, reason = "it creates folders")]
    pub fn new() -> Self {
        let site = Self(tempfile::tempdir().expect("a temporary folder"));
        fs::create_dir(site.root()).expect("the folder to serve");
        site
    }

    /// The folder to serve.
    pub fn root(&self) -> PathBuf {
        self.0.path().join("root")
    }

    /// A folder that must not be served.
    pub fn outside(&self) -> &Path {
        self.0.path()
    }

    /// Writes a file with a modification time an hour ago; one of the current second has only a weak tag.
    pub fn file(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().expect("below the root")).expect("its folder");
        fs::write(&path, content).expect("a file");
        age(&path, 3600);
        path
    }
}

/// Sets the modification time of a file to `seconds` ago.
pub fn age(path: &Path, seconds: u64) {
    let modified = SystemTime::now() - Duration::from_secs(seconds);
    let file = File::options().write(true).open(path).expect("the file");
    file.set_modified(modified).expect("its modification time");
}
