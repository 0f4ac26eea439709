//! Why there is nothing to serve.

use std::io;

/// What keeps a file from being served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// Nothing has this name.
    Missing,
    /// It may not be read, or lies outside of the root.
    Forbidden,
    /// Too much is open just now, or the file changed all the time.
    Busy,
    /// The disk failed.
    Broken,
}

/// Too many open files in the process; this and the next are the same on Linux, macOS and the BSDs.
const EMFILE: i32 = 24;
/// Too many open files in the system.
const ENFILE: i32 = 23;
/// A socket in the tree, or a device that is not there.
const ENXIO: i32 = 6;
/// Too many symbolic links, or one where none may be.
const ELOOP: i32 = if cfg!(target_os = "linux") { 40 } else { 62 };
/// A name longer than any file's.
const ENAMETOOLONG: i32 = if cfg!(target_os = "linux") { 36 } else { 63 };

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        use io::ErrorKind::{
            CrossesDevices, InvalidInput, NotADirectory, NotFound, OutOfMemory, PermissionDenied,
        };
        match (error.kind(), error.raw_os_error()) {
            (_, Some(EMFILE | ENFILE)) | (OutOfMemory, _) => Self::Busy,
            (_, Some(ENAMETOOLONG)) | (NotFound | NotADirectory | InvalidInput, _) => Self::Missing,
            (_, Some(ELOOP | ENXIO)) | (PermissionDenied | CrossesDevices, _) => Self::Forbidden,
            _ => Self::Broken,
        }
    }
}
