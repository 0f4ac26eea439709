//! Errors. Their messages name the remedy where there is one.

use std::fmt;
use std::io;
use std::path::PathBuf;

use phalanx::CallError;

/// The error of opening a store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process uses the directory.
    #[error(
        "{} is in use by another process; give each broker its own directory",
        path.display()
    )]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// A system call failed.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The attempted action.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Acknowledged batches are missing at the journal's end, or the whole journal is missing.
    #[error("{0}")]
    Lost(Lost),
    /// The journal is corrupt in a place where a crash cannot corrupt it.
    #[error(
        "{}: byte {offset}: {reason}. A crash does not cause this: check the disk, then restore the directory \
         from a backup, or start with an empty one. Nothing was changed",
        file.display()
    )]
    Corrupt {
        /// The segment.
        file: PathBuf,
        /// Offset in the segment, in bytes.
        offset: u64,
        /// Description of the error.
        reason: &'static str,
    },
}

/// The missing part of a journal, and the existing part.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lost {
    /// The directory.
    pub path: PathBuf,
    /// The newest known segment.
    pub file: PathBuf,
    /// Its known length, in bytes.
    pub bytes: u64,
    /// The newest existing segment; `None` if there is no journal.
    pub found_file: Option<PathBuf>,
    /// The length of its valid part, in bytes.
    pub found_bytes: u64,
    /// Number of missing batches; `None` if the files belong to another journal.
    pub missing: Option<u64>,
    /// Whether [`Options::accept_loss`](crate::Options::accept_loss) accepted the loss.
    pub accepted: bool,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, file, bytes, found_file, found_bytes, missing, accepted } = self;
        let (path, file) = (path.display(), file.display());
        match (missing, found_file) {
            (None, _) => write!(f, "{path}: the files belong to another journal")?,
            (Some(missing), None) => {
                write!(f, "{path}: the journal is missing, with {missing} acknowledged batches")?;
            }
            (Some(missing), Some(_)) => {
                write!(
                    f,
                    "{path}: {missing} acknowledged batches are missing at the end of the journal"
                )?;
            }
        }
        write!(f, ". It extended to byte {bytes} of {file}")?;
        match found_file {
            Some(found) => write!(f, ", and now to byte {found_bytes} of {}", found.display())?,
            None => write!(f, ", and now has no readable file")?,
        }
        match accepted {
            false => write!(
                f,
                ". A crash does not cause this: restore the directory from a backup, or accept the loss with \
                 --accept-loss. Nothing was changed"
            ),
            true => write!(f, ". The loss was accepted with --accept-loss"),
        }
    }
}

/// The error of appending an entry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AppendError {
    /// A write failed. Later appends may succeed.
    #[error("the journal cannot be written: {reason}")]
    Disk {
        /// The kind of the error, such as [`StorageFull`](io::ErrorKind::StorageFull).
        kind: io::ErrorKind,
        /// The system's error.
        reason: String,
    },
    /// The live data has reached [its limit](crate::Options::max_bytes). Entries that only delete are still accepted.
    #[error("the store is full ({bytes} bytes)")]
    Full {
        /// The size of the live data.
        bytes: u64,
    },
    /// The entries waiting for the disk have reached [their limit](crate::Options::max_pending_bytes).
    #[error("too many bytes are waiting for the disk ({bytes})")]
    Busy {
        /// Their size.
        bytes: usize,
    },
    /// The entry exceeds [`Entry::MAX_BYTES`](crate::Entry::MAX_BYTES).
    #[error("an entry of {bytes} bytes exceeds the maximum")]
    TooLong {
        /// Its size.
        bytes: usize,
    },
    /// An earlier sync failed, so the contents of the disk are unknown, or the disk repeatedly failed to read stored
    /// batches that the [mirror](crate::Mirror) had lost. Nothing more is accepted. The program must be restarted; it
    /// then recovers what is on disk.
    #[error("the journal is closed because the disk failed ({reason}); repair it and restart")]
    Broken {
        /// The system's error.
        reason: String,
    },
    /// The [mirror](crate::Mirror) takes no more batches, so nothing more is accepted.
    #[error("the copy of the journal is lost: {reason}")]
    Mirror {
        /// The reason.
        reason: String,
    },
    /// The program is shutting down, or overloaded.
    #[error("the journal is unavailable: {0}")]
    Call(#[from] CallError),
}

/// The reason why a mirror takes no more batches: this process no longer owns the journal, or must not continue without
/// the mirror.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirrorLost(pub String);

impl From<MirrorLost> for AppendError {
    fn from(MirrorLost(reason): MirrorLost) -> Self {
        Self::Mirror { reason }
    }
}

impl AppendError {
    /// Whether the disk is full or its quota is exceeded.
    pub fn is_out_of_room(&self) -> bool {
        use io::ErrorKind::{QuotaExceeded, StorageFull};
        matches!(self, Self::Disk { kind: StorageFull | QuotaExceeded, .. })
    }
}

/// Bytes at the journal's end that are not a complete batch. A crash during a write leaves such bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Torn {
    /// The segment.
    pub file: PathBuf,
    /// Offset of the end of the last complete batch, in bytes.
    pub offset: u64,
    /// Number of ignored bytes after it.
    pub bytes: u64,
    /// Whether the position file shows that they were never acknowledged. Without a valid one, and after an accepted
    /// loss, they may be the rest of an acknowledged batch.
    pub unacknowledged: bool,
}

impl fmt::Display for Torn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, offset, bytes, unacknowledged } = self;
        let file = file.display();
        match unacknowledged {
            true => write!(
                f,
                "{file}: ignored {bytes} bytes of an unfinished write after byte {offset}; they were never \
                 acknowledged"
            ),
            false => write!(
                f,
                "{file}: ignored {bytes} bytes after byte {offset}, which are not a complete batch; without a valid \
                 position it is unknown whether they were acknowledged"
            ),
        }
    }
}
