//! A small cache per processor for files of other processors' partitions.
//!
//! Each file belongs to one partition, and so to one processor. A request on another processor costs a
//! message in each direction. If both processors are mostly idle, it wakes two threads, each of which may
//! wait for a core. Each processor therefore keeps the files it received last, until the owner's last check
//! expires. Its copy is never older than the owner's entry may be.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use crate::files::entry::{Entry, MAX_WHOLE_BYTES};
use crate::site::{HostId, Site};

/// Entries per processor; the key selects the entry.
const ENTRIES: usize = 256;
/// Largest entry, including its other encodings, in bytes. All of them count as content in memory.
const MAX_ENTRY_BYTES: usize = 2 * MAX_WHOLE_BYTES as usize;

struct Kept {
    key: u64,
    host: HostId,
    path: Box<[u8]>,
    entry: Arc<Entry>,
    until: Duration,
}

/// Entries of one site; another site has different keys.
#[derive(Default)]
struct Near {
    site: u64,
    entries: Box<[Option<Kept>]>,
}

thread_local! {
    static NEAR: RefCell<Near> = RefCell::default();
}

fn index(key: u64) -> usize {
    // The low bits select the partition.
    (key >> 32) as usize % ENTRIES
}

/// Looks up `path`; `None` if it is not cached or expired at `now`.
pub(crate) fn find(
    site: &Site,
    key: u64,
    host: HostId,
    path: &[u8],
    now: Duration,
) -> Option<Arc<Entry>> {
    NEAR.with_borrow(|near| {
        let kept = near.entries.get(index(key))?.as_ref()?;
        let same = near.site == site.id && (kept.key, kept.host, &*kept.path) == (key, host, path);
        (same && now < kept.until).then(|| kept.entry.clone())
    })
}

/// Caches a file until `until`, possibly replacing another. Open files are not cached, because descriptors
/// are scarce. Nothing is cached while content exceeds its memory limit.
pub(crate) fn keep(
    site: &Site,
    key: u64,
    host: HostId,
    path: &[u8],
    entry: &Arc<Entry>,
    until: Duration,
) {
    if entry.is_open() || entry.bytes() > MAX_ENTRY_BYTES || site.memory.content.is_full() {
        return;
    }
    let kept = Kept { key, host, path: path.into(), entry: entry.clone(), until };
    // Drop the previous entry after the borrow: it may hold the last reference to its content.
    let _before = NEAR.with_borrow_mut(|near| {
        if near.site != site.id {
            *near = Near { site: site.id, entries: (0..ENTRIES).map(|_| None).collect() };
        }
        near.entries[index(key)].replace(kept)
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::site::Root;

    fn site() -> Arc<Site> {
        let dir = phalanx::fs::Dir::open(std::path::Path::new(".")).unwrap();
        Site::new(&Config::new(), vec![Root::from(dir)], None)
    }

    #[test]
    fn entries_expire() {
        let (one, other) = (site(), site());
        let host = one[one.host(None).unwrap()].id;
        let entry = Arc::new(Entry::of("text"));
        let at = Duration::from_millis;
        let found =
            |site: &Site, key, path: &[u8], now| find(site, key, host, path, at(now)).is_some();
        assert!(!found(&one, 7, b"a", 0));
        keep(&one, 7, host, b"a", &entry, at(10));
        assert!(found(&one, 7, b"a", 9));
        assert!(!found(&one, 7, b"a", 10), "expired");
        assert!(
            !found(&one, 7, b"b", 9) && !found(&one, 8, b"a", 9),
            "other keys of the same entry"
        );
        assert!(!found(&other, 7, b"a", 9), "of another site");
        keep(&one, 8, host, b"b", &entry, at(10));
        assert!(found(&one, 8, b"b", 9) && !found(&one, 7, b"a", 9), "one per entry");
        keep(&other, 7, host, b"a", &entry, at(10));
        assert!(found(&other, 7, b"a", 9) && !found(&one, 8, b"b", 9), "of one site only");
        let _full = other.memory.content.reserve(1 << 40);
        keep(&other, 9, host, b"c", &entry, at(10));
        assert!(!found(&other, 9, b"c", 9), "too much is in memory");
    }
}
