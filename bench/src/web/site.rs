//! The files that are served. By default a thousand small ones, of which some are popular.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Advice, fadvise};

/// How many files.
pub(crate) const FILES: usize = 1000;
/// How unequally popular they are: Zipf's law.
pub(crate) const ALPHA: f64 = 1.0;
/// Bytes of a body as it is drawn, on average; the seed is chosen so that it comes to about this.
const MEAN: f64 = 2442.0;

/// A directory of files.
pub(crate) struct Site {
    pub(crate) root: PathBuf,
    /// The paths, the most popular first, one a line.
    pub(crate) paths: PathBuf,
    /// How unequally popular they are.
    pub(crate) alpha: f64,
    /// What [`PROBE`] holds.
    pub(crate) probe: Vec<u8>,
}

/// The path by which a server is asked whether it serves this site.
pub(crate) const PROBE: &str = "/file000.html";

impl Site {
    /// Makes it in `directory`: small files, of which some are popular.
    pub(crate) fn make(directory: &Path) -> io::Result<Self> {
        Self::of(directory, &sizes(), ALPHA)
    }

    /// A site of files of these sizes; the Nth is asked for with a weight of 1/N^`alpha`.
    pub(crate) fn of(directory: &Path, sizes: &[usize], alpha: f64) -> io::Result<Self> {
        let (root, paths) = (directory.join("site"), directory.join("paths"));
        fs::create_dir(&root)?;
        let (mut list, mut probe) = (String::new(), Vec::new());
        for (number, &size) in sizes.iter().enumerate() {
            let name = format!("file{number:03}.html");
            let contents = contents(number, size);
            fs::write(root.join(&name), &contents)?;
            writeln!(list, "/{name}").expect("a string takes everything");
            if PROBE[1..] == name {
                probe = contents;
            }
        }
        fs::write(&paths, list)?;
        Ok(Self { root, paths, alpha, probe })
    }

    /// Has the kernel forget what the files hold, as far as it does: on a file system in memory there
    /// is nothing to forget.
    pub(crate) fn forget(&self) -> io::Result<()> {
        for file in fs::read_dir(&self.root)? {
            let file = fs::File::open(file?.path())?;
            // What was not written back yet cannot be forgotten.
            file.sync_all()?;
            fadvise(&file, 0, None, Advice::DontNeed)?;
        }
        Ok(())
    }
}

/// From 1 to 4 KiB each, by the first seed that gives the wanted mean.
fn sizes() -> Vec<usize> {
    let draw = |seed| {
        let mut random = fastrand::Rng::with_seed(seed);
        (0..FILES).map(|_| random.usize(1024..=4096)).collect::<Vec<_>>()
    };
    let close = |sizes: &Vec<usize>| (mean(sizes) / MEAN - 1.0).abs() < 0.01;
    (0..).map(draw).find(close).expect("some seed does")
}

/// The mean size when drawn by popularity.
fn mean(sizes: &[usize]) -> f64 {
    let weight = |at: usize| ((at + 1) as f64).powf(-ALPHA);
    let total: f64 = (0..sizes.len()).map(weight).sum();
    let sum: f64 = sizes.iter().enumerate().map(|(at, size)| weight(at) * *size as f64).sum();
    sum / total
}

/// Text that differs from file to file.
fn contents(number: usize, size: usize) -> Vec<u8> {
    let line = format!("<p>This is file {number}, and nothing in it is worth reading.</p>\n");
    line.bytes().cycle().take(size).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_as_promised() {
        let sizes = sizes();
        assert_eq!(sizes, super::sizes(), "the same each time");
        assert!(sizes.iter().all(|size| (1024..=4096).contains(size)));
        assert!((mean(&sizes) - MEAN).abs() < 0.01 * MEAN);
    }

    #[test]
    fn a_site_is_made() {
        let directory = tempfile::tempdir().unwrap();
        let site = Site::make(directory.path()).unwrap();
        assert_eq!(fs::read_dir(&site.root).unwrap().count(), FILES);
        assert_eq!(fs::read_to_string(&site.paths).unwrap().lines().next(), Some(PROBE));
        assert_eq!(fs::read(site.root.join(&PROBE[1..])).unwrap(), site.probe);
    }
}
