//! Failures of looking up a file.

use std::io;

use phalanx::CallError;

/// Reason why a file cannot be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// No such file.
    Missing,
    /// No permission, or outside the root.
    Forbidden,
    /// Too many open files or operations, or the file changed during each attempt to read it.
    Busy,
    /// An I/O error.
    Broken,
}

/// Too many open files in the process; this number and the next are the same on Linux, macOS and the BSDs.
const EMFILE: i32 = 24;
/// Too many open files in the system.
const ENFILE: i32 = 23;
/// A socket, or a device without a driver.
const ENXIO: i32 = 6;
/// Too many symbolic links, or a link where none is allowed.
const ELOOP: i32 = if cfg!(target_os = "linux") { 40 } else { 62 };
/// A name that exceeds the limit of the file system.
const ENAMETOOLONG: i32 = if cfg!(target_os = "linux") { 36 } else { 63 };

impl From<&CallError> for Failure {
    fn from(error: &CallError) -> Self {
        match error {
            // No reply: the aggregator could not call the disk stage.
            CallError::Full { .. } | CallError::Cancelled | CallError::ReplyDropped { .. } => {
                Self::Busy
            }
            _ => Self::Broken,
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if let Some(call) = error.get_ref().and_then(|inner| inner.downcast_ref::<CallError>()) {
            return call.into();
        }
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
