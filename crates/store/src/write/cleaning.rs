//! The progress of cleaning, and the amount to clean with each commit.

use crate::options::MAX_BATCH_BYTES;
use crate::write::piece::{Part, Piece};

/// The number of bytes cleaned per byte written.
pub(crate) const CLEAN_RATIO: i64 = 4;

/// The number of bytes read at a time, and cleaned at a time if cleaning is urgent or in debt.
pub(crate) const PIECE_BYTES: i64 = 64 << 10;

/// Maximum size of a piece, unless a batch is longer.
pub(crate) const MAX_PIECE_BYTES: i64 = 2 * CLEAN_RATIO * MAX_BATCH_BYTES as i64;

/// Progress of cleaning.
#[derive(Debug, Default)]
pub(crate) struct Cleaning {
    pub(crate) on: bool,
    /// The journal is too long regardless of new writes.
    pub(crate) is_urgent: bool,
    /// Cleaning has stopped, because a piece is unreadable.
    pub(crate) is_stopped: bool,
    /// Number of bytes rewritten.
    pub(crate) rewritten: u64,
    /// Bytes still to be cleaned for past writes; negative if the last record was longer.
    pub(crate) debt: i64,
    /// Bytes of entries of the last commit, as an estimate of the next one's.
    pub(crate) last: usize,
    /// Progress in the oldest segment: bytes, and the number of the next batch. `None` at its start.
    pub(crate) done: Option<(u64, u64)>,
    /// The next piece.
    pub(crate) piece: Option<Piece>,
}

impl Cleaning {
    /// Whether cleaning proceeds without entries to commit.
    pub(crate) fn is_urgent(&self) -> bool {
        self.is_urgent && self.piece.is_some()
    }

    /// The part to clean with a commit of `bytes` of entries.
    pub(crate) fn part(&self, bytes: usize) -> Option<Part> {
        let bytes = self.due().min(max_per_commit(bytes));
        let piece = self.piece.as_ref().filter(|_| bytes > 0)?;
        Some(piece.part(bytes as u64))
    }

    /// Adds the debt for `bytes` of written entries.
    pub(crate) fn add_debt(&mut self, bytes: usize) {
        self.debt += CLEAN_RATIO * bytes as i64;
        self.last = bytes;
    }

    /// Bytes to be cleaned, regardless of the limit per commit.
    pub(crate) fn due(&self) -> i64 {
        if self.is_urgent { self.debt.max(PIECE_BYTES) } else { self.debt }
    }
}

/// Maximum bytes to clean with a commit of `bytes` of entries. The factor 2 makes up for parts cut short at
/// the end of a piece.
pub(crate) fn max_per_commit(bytes: usize) -> i64 {
    PIECE_BYTES + 2 * CLEAN_RATIO * bytes as i64
}
