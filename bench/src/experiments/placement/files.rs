//! The loads: which files the clients request.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

use crate::runner::Site;

/// Sizes of the files in bytes: those of the paper, and one between them.
const SIZES: [usize; 5] = [10, 100_000, 1_000_000, 10_000_000, 2_000];
/// Connections, as in the paper.
pub(super) const CONNECTIONS: usize = 8;

/// A load: the files with these numbers, equally often.
#[derive(Clone, Copy)]
pub(super) struct FileLoad {
    pub(super) name: &'static str,
    files: &'static [usize],
}

/// The loads of the paper's figures.
pub(super) const PAPER: [FileLoad; 4] = [
    FileLoad { name: "10 B", files: &[0] },
    FileLoad { name: "100 KB", files: &[1] },
    FileLoad { name: "1 MB", files: &[2] },
    FileLoad { name: "10 MB", files: &[3] },
];
/// Those of them that are in the profile.
pub(super) const PROFILED: [FileLoad; 3] = [PAPER[0], PAPER[1], PAPER[3]];
/// Loads that are not.
pub(super) const UNSEEN: [FileLoad; 2] = [
    FileLoad { name: "2 KB", files: &[4] },
    FileLoad { name: "10 B and 1 MB", files: &[0, 0, 0, 0, 0, 0, 0, 0, 0, 2] },
];

/// Creates all files in `directory`.
pub(super) fn site(directory: &Path) -> io::Result<Site> {
    Site::of(directory, &SIZES, 0.0)
}

impl FileLoad {
    /// Lets the clients of the next slices request these files.
    pub(super) fn select(self, site: &Site) -> io::Result<()> {
        fs::write(&site.paths, self.paths())
    }

    /// The paths, one per line.
    pub(super) fn paths(self) -> String {
        let mut list = String::new();
        for number in self.files {
            writeln!(list, "/file{number:03}.html").expect("writing to a string succeeds");
        }
        list
    }
}
