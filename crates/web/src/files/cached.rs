//! A cached file, shared by all processors.
//!
//! Each file belongs to one partition of the cache, which publishes it in the file index. Requests on other processors
//! find a replica there, so a hit needs no message to the owner. Two fields change while a file is cached: the owner
//! records each check for changes, and the first hit after the clock hand has passed marks the file as used. All other
//! hits only read the file.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use phalanx::stage::{Replica, ReplicatedStage};

use crate::files::entry::Entry;
use crate::site::HostId;

/// Files by the key of their path, on every processor.
pub(crate) type FileIndex = ReplicatedStage<CachedFile>;

/// A processor's reference to a cached file, shared by its requests.
pub(crate) type FileRef = Replica<CachedFile>;

/// A cached file and its path.
pub(crate) struct CachedFile {
    host: HostId,
    path: Box<[u8]>,
    entry: Entry,
    /// Start time of the last check for changes, in nanoseconds.
    last_check: AtomicU64,
    /// Whether a request used the file since the hand of the clock passed it.
    used: AtomicBool,
}

impl CachedFile {
    /// A file that was loaded at `now`.
    pub(crate) fn new(host: HostId, path: &[u8], entry: Entry, now: Duration) -> Self {
        let (last_check, used) = (AtomicU64::new(nanos(now)), AtomicBool::new(false));
        Self { host, path: path.into(), entry, last_check, used }
    }

    /// Whether this is the file at `path`. Keys are hashes, so two paths may share one.
    pub(crate) fn is_at(&self, host: HostId, path: &[u8]) -> bool {
        (self.host, &*self.path) == (host, path)
    }

    /// Whether the last check for changes began less than `revalidate` ago.
    pub(crate) fn is_fresh(&self, now: Duration, revalidate: Duration) -> bool {
        nanos(now).saturating_sub(self.last_check.load(Relaxed)) < nanos(revalidate)
    }

    /// Records the start of a check for changes.
    pub(crate) fn mark_checked(&self, now: Duration) {
        self.last_check.store(nanos(now), Relaxed);
    }

    /// Marks the file as used. Writes only if it is not marked, because other processors read the mark.
    pub(crate) fn touch(&self) {
        if !self.used.load(Relaxed) {
            self.used.store(true, Relaxed);
        }
    }

    /// Whether the file was used since the last call.
    pub(crate) fn take_used(&self) -> bool {
        self.used.swap(false, Relaxed)
    }

    /// Approximate memory of the file and its path, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.path.len() + self.entry.bytes() + size_of::<Self>() - size_of::<Entry>()
    }
}

impl Deref for CachedFile {
    type Target = Entry;

    fn deref(&self) -> &Entry {
        &self.entry
    }
}

/// Nanoseconds since the clock's start; saturates after centuries.
fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_fresh_until_the_next_check_is_due() {
        let at = Duration::from_millis;
        let file = CachedFile::new(HostId(1), b"a", Entry::of("text"), at(5));
        assert!(file.is_fresh(at(14), at(10)) && !file.is_fresh(at(15), at(10)));
        assert!(!file.is_fresh(at(5), Duration::ZERO), "each request checks the file");
        assert!(file.is_fresh(at(4), at(10)), "read before the owner's time was");
        file.mark_checked(at(15));
        assert!(file.is_fresh(at(24), at(10)) && !file.is_fresh(at(25), at(10)));
        assert!(file.is_at(HostId(1), b"a"));
        assert!(!file.is_at(HostId(1), b"b") && !file.is_at(HostId(2), b"a"));
    }

    #[test]
    fn a_mark_is_taken_once() {
        let file = CachedFile::new(HostId(1), b"a", Entry::of("text"), Duration::ZERO);
        assert!(!file.take_used());
        file.touch();
        file.touch();
        assert!(file.take_used() && !file.take_used());
    }
}
