//! One partition of the file cache, bounded in bytes.
//!
//! Eviction uses the clock algorithm: a hand cycles through the entries, clears the mark of used ones, and
//! evicts those without a mark.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::time::Duration;

use phalanx::net::Bytes;
use phalanx::stage::{Offer, Published};

use crate::files::cached::{CachedFile, FileRef};
use crate::files::entry::FileId;
use crate::files::loads::Loads;
use crate::site::HostId;

/// A cached value with its identity.
pub(crate) enum Value {
    File {
        /// Removes the file from all processors when it is dropped.
        published: Published<CachedFile>,
        /// Reference for requests on this processor.
        local: FileRef,
    },
    Block {
        file: FileId,
        block: u64,
        bytes: Bytes,
    },
}

impl Value {
    /// A published file.
    pub(crate) fn file(published: Published<CachedFile>) -> Self {
        let local = published.offer().into_replica();
        Self::File { published, local }
    }

    /// The number of files that the value keeps open.
    fn open_files(&self) -> usize {
        match self {
            Self::File { local, .. } => local.open_files(),
            Self::Block { .. } => 0,
        }
    }
}

struct Record {
    value: Value,
    bytes: usize,
    /// Number of files that the value keeps open.
    open_files: usize,
    /// Number of its entry in [`FileCache::open`], if it keeps files open.
    open_number: Option<u64>,
    /// Whether the block was used since the hand passed it. Files are marked in [`CachedFile`] instead.
    used: bool,
}

impl Record {
    /// Approximate memory of a cached value, in bytes.
    fn bytes(value: &Value) -> usize {
        let bytes = match value {
            Value::File { local, .. } => local.bytes(),
            Value::Block { bytes, .. } => bytes.len(),
        };
        bytes + size_of::<Self>()
    }

    /// Whether the value was used since the last call.
    fn take_used(&mut self) -> bool {
        match &self.value {
            Value::File { local, .. } => local.take_used(),
            Value::Block { .. } => std::mem::take(&mut self.used),
        }
    }
}

/// A partition: its cached files and blocks, and the files being loaded.
pub(crate) struct FileCache {
    records: HashMap<u64, Record, BuildHasherDefault<Hashed>>,
    hand: VecDeque<u64>,
    used: usize,
    budget: usize,
    /// Keys of values that keep files open, numbered from the oldest one. Descriptors are scarcer than memory.
    open: BTreeMap<u64, u64>,
    /// The last of these numbers.
    last_open_number: u64,
    /// Number of files that these values keep open.
    open_files: usize,
    max_open: usize,
    pub(crate) loads: Loads,
}

/// A cache hit.
pub(crate) struct Hit {
    pub(crate) file: Offer<CachedFile>,
    /// Whether this caller should check the file for changes; only one caller at a time does.
    pub(crate) stale: bool,
}

impl FileCache {
    /// Creates a partition for `budget` bytes and `max_open` open files.
    pub(crate) fn new(budget: usize, max_open: usize) -> Self {
        Self {
            records: HashMap::default(),
            hand: VecDeque::new(),
            used: 0,
            budget,
            open: BTreeMap::new(),
            last_open_number: 0,
            open_files: 0,
            max_open,
            loads: Loads::default(),
        }
    }

    /// Looks up the file at a host's `path`, whose key is `key`.
    pub(crate) fn file(
        &mut self,
        key: u64,
        host: HostId,
        path: &[u8],
        now: Duration,
        revalidate: Duration,
    ) -> Option<Hit> {
        let file = self.find(key, host, path)?;
        let stale = !file.is_fresh(now, revalidate);
        if stale {
            file.mark_checked(now);
        }
        Some(Hit { file: file.offer(), stale })
    }

    /// Like [`file`](Self::file), but returns `None` if the file should be checked for changes.
    pub(crate) fn fresh(
        &mut self,
        key: u64,
        host: HostId,
        path: &[u8],
        now: Duration,
        revalidate: Duration,
    ) -> Option<FileRef> {
        let file = self.find(key, host, path)?;
        file.is_fresh(now, revalidate).then(|| file.clone())
    }

    fn find(&mut self, key: u64, host: HostId, path: &[u8]) -> Option<&FileRef> {
        match &self.records.get(&key)?.value {
            Value::File { local, .. } if local.is_at(host, path) => {
                local.touch();
                Some(local)
            }
            _ => None,
        }
    }

    /// Looks up a block of a file.
    pub(crate) fn block(&mut self, key: u64, file: FileId, block: u64) -> Option<Bytes> {
        let record = self.records.get_mut(&key)?;
        match &record.value {
            Value::Block { file: f, block: b, bytes } if (*f, *b) == (file, block) => {
                record.used = true;
                Some(bytes.clone())
            }
            _ => None,
        }
    }

    /// Inserts `value`, replacing the value with the same key. A value that exceeds a limit is not inserted.
    pub(crate) fn insert(&mut self, key: u64, value: Value) {
        self.remove(key);
        let (bytes, open_files) = (Record::bytes(&value), value.open_files());
        if bytes > self.budget || open_files > self.max_open {
            return;
        }
        self.count_open(key, open_files);
        self.used += bytes;
        let open_number = (open_files > 0).then(|| self.add_open(key));
        self.records.insert(key, Record { value, bytes, open_files, open_number, used: false });
        while self.used > self.budget {
            self.evict();
        }
        self.hand.push_back(key);
    }

    /// Counts `more` files that the value of a key keeps open, and removes the oldest other values with open files if
    /// these are too many.
    fn count_open(&mut self, key: u64, more: usize) {
        self.open_files += more;
        while self.open_files > self.max_open
            && let Some(oldest) = self.open.values().copied().find(|other| *other != key)
        {
            self.remove(oldest);
        }
    }

    /// Adds the key of a value that now keeps files open. Returns the number of its entry.
    fn add_open(&mut self, key: u64) -> u64 {
        self.last_open_number += 1;
        self.open.insert(self.last_open_number, key);
        self.last_open_number
    }

    /// Whether `file` is the cached value of this key.
    pub(crate) fn contains(&self, key: u64, file: &Offer<CachedFile>) -> bool {
        let value = self.records.get(&key).map(|record| &record.value);
        matches!(value, Some(Value::File { published, .. }) if published.is(file))
    }

    /// Whether the value of a key may grow by `bytes` and by `open_files` files without displacing most other values.
    pub(crate) fn has_capacity(&self, key: u64, bytes: usize, open_files: usize) -> bool {
        let own = self.records.get(&key).map_or(0, |record| record.open_files);
        bytes <= self.budget / 2 && own + open_files <= self.max_open
    }

    /// Updates the size of a value that has grown.
    pub(crate) fn update_size(&mut self, key: u64) {
        let Some(record) = self.records.get_mut(&key) else { return };
        let (bytes, open_files) = (Record::bytes(&record.value), record.value.open_files());
        self.used = self.used - record.bytes + bytes;
        record.bytes = bytes;
        let more = open_files - std::mem::replace(&mut record.open_files, open_files);
        let has_no_number = open_files > 0 && record.open_number.is_none();
        // The file was just requested, so it must not be evicted immediately.
        if let Value::File { local, .. } = &record.value {
            local.touch();
        }
        if has_no_number {
            let number = self.add_open(key);
            self.records.get_mut(&key).expect("found above").open_number = Some(number);
        }
        self.count_open(key, more);
        while self.used > self.budget {
            self.evict();
        }
    }

    /// Removes the value of this key.
    pub(crate) fn remove(&mut self, key: u64) {
        if let Some(record) = self.records.remove(&key) {
            self.used -= record.bytes;
            self.hand.retain(|other| *other != key);
            self.remove_open(&record);
        }
    }

    fn evict(&mut self) {
        let key = self.hand.pop_front().expect("a cache above its budget has entries");
        let record = self.records.get_mut(&key).expect("each key of the clock has a record");
        if record.take_used() {
            self.hand.push_back(key);
        } else {
            self.used -= record.bytes;
            if let Some(record) = self.records.remove(&key) {
                self.remove_open(&record);
            }
        }
    }

    fn remove_open(&mut self, record: &Record) {
        self.open_files -= record.open_files;
        if let Some(number) = record.open_number {
            self.open.remove(&number);
        }
    }
}

/// Identity hasher: the keys are already hashes.
#[derive(Default)]
pub(crate) struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are numbers")
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(byte: u8) -> Value {
        let file = FileId::of_length(u64::from(byte));
        Value::Block { file, block: 0, bytes: Bytes::from(vec![byte; 1000]) }
    }

    fn get(cache: &mut FileCache, n: u8) -> Option<Bytes> {
        cache.block(u64::from(n), FileId::of_length(u64::from(n)), 0)
    }

    #[test]
    fn the_budget_holds_and_used_entries_stay() {
        let mut cache = FileCache::new(5 * (1000 + size_of::<Record>()), 8);
        for n in 0..5 {
            cache.insert(u64::from(n), block(n));
        }
        assert!(get(&mut cache, 0).is_some() && get(&mut cache, 1).is_some());
        cache.insert(5, block(5));
        cache.insert(6, block(6));
        assert!(cache.used <= cache.budget && cache.records.len() == cache.hand.len());
        assert!(get(&mut cache, 0).is_some(), "used since the hand passed");
        assert!(get(&mut cache, 2).is_none(), "the oldest unused entry");
        cache.insert(
            7,
            Value::Block {
                file: FileId::of_length(7),
                block: 0,
                bytes: Bytes::from(vec![0; 10_000]),
            },
        );
        assert!(get(&mut cache, 7).is_none(), "larger than all of the cache");
        assert!(get(&mut cache, 5).is_some());
    }

    #[test]
    fn equal_keys_of_different_paths() {
        let mut cache = FileCache::new(1 << 20, 8);
        cache.insert(1, block(1));
        assert!(cache.block(1, FileId::of_length(2), 0).is_none());
        assert!(cache.block(1, FileId::of_length(1), 1).is_none());
        assert!(cache.file(1, HostId(0), b"x", Duration::ZERO, Duration::ZERO).is_none());
    }

    #[test]
    fn values_may_grow_to_half_of_the_budget() {
        let cache = FileCache::new(1000, 0);
        assert!(cache.has_capacity(1, 500, 0) && !cache.has_capacity(1, 501, 0));
        assert!(!cache.has_capacity(1, 500, 1) && FileCache::new(1000, 1).has_capacity(1, 500, 1));
    }
}
