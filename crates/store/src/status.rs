//! Metrics of a running store.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use crate::error::AppendError;
use crate::write::writer::Writer;

/// Sizes, and counters since the store was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// Stored entries.
    pub entries: u64,
    /// Successful commits, each one write and one sync.
    pub commits: u64,
    /// Failed commits.
    pub failed: u64,
    /// Live bytes rewritten by cleaning.
    pub rewritten: u64,
    /// Segments, not counting cleaned ones whose files still exist.
    pub segments: u64,
    /// Their size in bytes.
    pub bytes: u64,
    /// The size of the live records in bytes.
    pub live: u64,
    /// The disk is full, and writes use the reserve. Callers may delete but must not add to the state.
    pub is_low: bool,
    /// The size of the reserve that currently exists, in bytes.
    pub reserved: u64,
    /// The error that stopped cleaning, which should be reported to the operator.
    pub fault: Option<String>,
}

/// Written by the journal's processor, read by any thread.
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
        result: &Result<(), AppendError>,
    ) {
        let (count, entries) = match result {
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
        self.reserved.store(writer.reserve.reserved_bytes(), Relaxed);
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
