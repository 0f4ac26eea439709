//! Figures of a store at work, for metrics pages and for those who operate it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use crate::error::AppendError;
use crate::writer::Writer;

/// How much there is, and what it has cost since the store was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// Entries that were kept.
    pub entries: u64,
    /// Writes that were synced, each for all entries of a commit.
    pub commits: u64,
    /// Commits that came to nothing.
    pub failed: u64,
    /// Bytes that were written again, as they were alive where the journal was cleaned.
    pub rewritten: u64,
    /// Files of the journal. Those that were cleaned do not count, though they may lie on the disk a while longer.
    pub segments: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Of these, bytes of what is alive.
    pub live: u64,
    /// The disk is full: what is appended uses room that was set aside. Who appends is to add nothing, only to let go.
    pub is_low: bool,
    /// Bytes that are set aside now for the time when the disk is full.
    pub reserved: u64,
    /// Why nothing is cleaned any more; to be told to somebody.
    pub fault: Option<String>,
}

/// Written by the journal's processor, read by whoever asks.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    entries: AtomicU64,
    commits: AtomicU64,
    failed: AtomicU64,
    rewritten: AtomicU64,
    segments: AtomicU64,
    bytes: AtomicU64,
    live: AtomicU64,
    is_low: AtomicBool,
    reserved: AtomicU64,
    fault: Mutex<Option<String>>,
}

impl Counters {
    pub(crate) fn committed(
        &self,
        writer: &Writer,
        entries: usize,
        kept: &Result<(), AppendError>,
    ) {
        let (count, entries) = match kept {
            Ok(()) => (&self.commits, entries as u64),
            Err(_) => (&self.failed, 0),
        };
        count.fetch_add(1, Relaxed);
        self.entries.fetch_add(entries, Relaxed);
        self.measure(writer);
    }

    pub(crate) fn measure(&self, writer: &Writer) {
        let extent = writer.extent();
        self.segments.store(extent.segments, Relaxed);
        self.bytes.store(extent.bytes, Relaxed);
        self.live.store(extent.live, Relaxed);
        self.is_low.store(writer.reserve.is_low(), Relaxed);
        self.reserved.store(writer.reserve.held(), Relaxed);
        self.rewritten.store(writer.cleaning.rewritten, Relaxed);
    }

    pub(crate) fn fault(&self, fault: String) {
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = Some(fault);
    }

    pub(crate) fn status(&self) -> Status {
        Status {
            entries: self.entries.load(Relaxed),
            commits: self.commits.load(Relaxed),
            failed: self.failed.load(Relaxed),
            rewritten: self.rewritten.load(Relaxed),
            segments: self.segments.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            live: self.live.load(Relaxed),
            is_low: self.is_low.load(Relaxed),
            reserved: self.reserved.load(Relaxed),
            fault: self.fault.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }
}
