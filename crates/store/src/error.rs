//! What can go wrong, said so that somebody can do something about it.

use std::fmt;
use std::io;
use std::path::PathBuf;

use phalanx::CallError;

/// Why a store cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process works on it.
    #[error(
        "{} is in use by another process: a directory is for one broker, give each its own",
        path.display()
    )]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// The system refuses.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Acknowledged batches are missing at the journal's end, or all of it is.
    #[error("{0}")]
    Lost(Lost),
    /// The journal is broken where no crash breaks it.
    #[error(
        "{}: byte {offset}: {what}. A crash does not do this: look at the disk, then put the directory back \
         from a copy, or start with an empty one. Nothing was changed",
        file.display()
    )]
    Corrupt {
        /// The segment.
        file: PathBuf,
        /// Where in it, in bytes from its beginning.
        offset: u64,
        /// What is wrong.
        what: &'static str,
    },
}

/// What a journal is known to have had and does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lost {
    /// The directory.
    pub path: PathBuf,
    /// The newest segment that there was.
    pub file: PathBuf,
    /// How many bytes of it counted.
    pub bytes: u64,
    /// The newest segment that there is; none where there is no journal.
    pub found_file: Option<PathBuf>,
    /// How many bytes of it are whole.
    pub found_bytes: u64,
    /// How many batches are missing; none where the files are another journal's.
    pub missing: Option<u64>,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, file, bytes, found_file, found_bytes, missing } = self;
        let (path, file) = (path.display(), file.display());
        match (missing, found_file) {
            (None, _) => write!(f, "{path}: the files are those of another journal than before")?,
            (Some(missing), None) => {
                write!(
                    f,
                    "{path}: the journal is missing: {missing} batches of it were acknowledged"
                )?;
            }
            (Some(missing), Some(_)) => {
                write!(
                    f,
                    "{path}: {missing} batches that were acknowledged are missing at the end of the journal"
                )?;
            }
        }
        write!(f, ". It reached to byte {bytes} of {file}")?;
        match found_file {
            Some(found) => write!(f, ", and reaches to byte {found_bytes} of {}", found.display())?,
            None => write!(f, ", and there is no file of it")?,
        }
        write!(
            f,
            ". A crash does not do this: put the directory back from a copy, or accept the loss with --accept-loss. \
             Nothing was changed"
        )
    }
}

/// Why an entry was not kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AppendError {
    /// The disk did not take it. The next one is tried again.
    #[error("the journal cannot be written: {what}")]
    Disk {
        /// Of which kind the error is: [`StorageFull`](io::ErrorKind::StorageFull), say.
        kind: io::ErrorKind,
        /// What the system says.
        what: String,
    },
    /// The store has [as much as it may](crate::Options::max_bytes). Entries that only let go are
    /// taken still.
    #[error("the store holds {bytes} bytes, which is as many as it may")]
    Full {
        /// How many it holds.
        bytes: u64,
    },
    /// [Too much](crate::Options::max_pending_bytes) waits for the disk already.
    #[error("{bytes} bytes wait for the disk already")]
    Busy {
        /// How much.
        bytes: usize,
    },
    /// It is longer than [`Entry::MAX_BYTES`](crate::Entry::MAX_BYTES).
    #[error("an entry of {bytes} bytes is longer than any may be")]
    TooLong {
        /// How long.
        bytes: usize,
    },
    /// A sync has failed before. Nobody knows what is on the disk, so nothing more is kept: the program
    /// has to be started again, and reads what is there.
    #[error("the journal is closed since the disk failed ({what}): start again once it is mended")]
    Broken {
        /// What the system has said then.
        what: String,
    },
    /// The program is at its end, or has too much to do.
    #[error("the journal was not reached: {0}")]
    Call(#[from] CallError),
}

impl AppendError {
    /// Whether the disk, or what its owner may have of it, is full.
    pub fn is_out_of_room(&self) -> bool {
        use io::ErrorKind::{QuotaExceeded, StorageFull};
        matches!(self, Self::Disk { kind: StorageFull | QuotaExceeded, .. })
    }
}

/// The end of the journal that a crash has left in pieces. It was never acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Torn {
    /// The segment.
    pub file: PathBuf,
    /// Where in it the last whole batch ends, in bytes from its beginning.
    pub offset: u64,
    /// So many bytes behind that are not counted.
    pub bytes: u64,
}

impl fmt::Display for Torn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, offset, bytes } = self;
        let file = file.display();
        write!(
            f,
            "{file}: a crash has left {bytes} bytes unfinished behind byte {offset}: they were never \
             acknowledged, and are left out"
        )
    }
}
