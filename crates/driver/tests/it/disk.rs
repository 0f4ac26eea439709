//! A directory for a test: on the machine's disk, or on a simulated one.

use std::ffi::CString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use phalanx_driver::{Access, File, OpenHow, SymlinkPolicy, sim};
use tempfile::TempDir;

/// Deleted at the end of the test.
pub(crate) enum Disk {
    Real(TempDir),
    Simulated(sim::World),
}

impl Disk {
    pub(crate) fn write(&self, path: &str, bytes: &[u8]) {
        match self {
            Self::Real(root) => {
                let path = root.path().join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, bytes).unwrap();
            }
            Self::Simulated(world) => world.write(path, bytes),
        }
    }

    pub(crate) fn link(&self, path: &str, target: &str) {
        match self {
            Self::Real(root) => symlink(target, root.path().join(path)).unwrap(),
            Self::Simulated(world) => world.link(path, target),
        }
    }

    /// Opens the file at `path`, outside the driver.
    pub(crate) fn open(&self, path: &str) -> File {
        match self {
            Self::Real(root) => fs::File::open(root.path().join(Path::new(path))).unwrap().into(),
            Self::Simulated(world) => {
                let (path, how) = (
                    CString::new(path).unwrap(),
                    OpenHow { links: SymlinkPolicy::Follow, access: Access::Read },
                );
                loop {
                    if let Some(file) = world.root().open_now(&path, how) {
                        return file.unwrap();
                    }
                }
            }
        }
    }
}
