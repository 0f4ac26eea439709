//! The requested files and their expected contents.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

/// The content of `/file.txt`.
pub(crate) const FILE: &str = "0123456789abcdefghijklmnopqrstuvwxyz";
/// Modification time of every file: the example of RFC 9110, 5.6.7.
pub(crate) const CHANGED: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
/// The same time in an obsolete format.
pub(crate) const CHANGED_850: &str = "Sunday, 06-Nov-94 08:49:37 GMT";
/// The same time in the format of C's `asctime`.
pub(crate) const CHANGED_ASCTIME: &str = "Sun Nov  6 08:49:37 1994";
/// A second before.
pub(crate) const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
/// A second later.
pub(crate) const AFTER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";
/// Content of a file outside the root, which must never be served.
pub(crate) const SECRET: &str = "this is secret";
/// Content of the probe file, requested after each case.
pub(crate) const PROBE: &str = "probe";
/// Length of `/large.bin`: several blocks, and not a multiple of one.
pub(crate) const LARGE: usize = 300_001;

/// Symbolic links: target and location. Some lead out of the root.
const LINKS: [(&str, &str); 4] = [
    ("file.txt", "link-within.txt"),
    ("../secret", "link-out"),
    ("..", "link-up"),
    ("/etc", "link-away"),
];

/// The folder that a server under test serves, removed when dropped.
pub(crate) struct Tree(TempDir);

impl Tree {
    pub(crate) fn new() -> Self {
        let tree = Self(tempfile::tempdir().expect("a temporary directory"));
        let root = tree.root();
        fs::create_dir(&root).expect("the root");
        fs::write(root.with_file_name("secret"), SECRET).expect("the secret");
        let files: [(&str, &[u8]); 14] = [
            ("file.txt", FILE.as_bytes()),
            ("probe.txt", PROBE.as_bytes()),
            ("index.html", b"<!doctype html>root"),
            ("empty.txt", b""),
            ("dir/index.html", b"<!doctype html>dir"),
            ("dir/inner/file.txt", b"inner"),
            ("noindex/file.txt", b"noindex"),
            ("a b.txt", b"space"),
            ("a+b.txt", b"plus"),
            ("a;b.txt", b"semicolon"),
            ("\u{e9}.txt", b"accent"),
            ("100%.txt", b"percent"),
            (".hidden", SECRET.as_bytes()),
            (".git/config", SECRET.as_bytes()),
        ];
        for (name, content) in files {
            write(&root.join(name), content);
        }
        write(&root.join("large.bin"), &large());
        for (target, name) in LINKS {
            symlink(target, root.join(name)).expect("a link");
        }
        tree
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.0.path().join("root")
    }

    /// A folder next to the root, for the servers' own files.
    pub(crate) fn outside(&self) -> &Path {
        self.0.path()
    }
}

/// The content of `/large.bin`.
pub(crate) fn large() -> Vec<u8> {
    (0..LARGE).map(|at| (at * 7 + at / 256 * 13) as u8).collect()
}

fn write(path: &Path, content: &[u8]) {
    fs::create_dir_all(path.parent().expect("a file lies in a directory")).expect("a directory");
    fs::write(path, content).expect("a file");
    let changed = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
    let file = File::options().write(true).open(path).expect("the file");
    file.set_modified(changed).expect("its time");
}

/// Properties of `/file.txt` known only to the server.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    /// Its strong entity tag, with quotes.
    pub(crate) etag: String,
}
