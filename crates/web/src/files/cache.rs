//! One partition of the file cache: a budget of bytes, and the least used go first.
//!
//! Eviction is by the clock rule: a hand goes round, spares what was used since it last came by,
//! and takes what was not.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::time::Duration;

use phalanx::net::Bytes;
use phalanx::sync::Trigger;

use crate::files::entry::{Entry, FileId};
use crate::files::lookup::Looked;
use crate::site::HostId;

/// What is kept, and what for.
pub(crate) enum Value {
    Entry {
        host: HostId,
        path: Box<[u8]>,
        entry: Arc<Entry>,
        /// When somebody began to look whether the file has changed.
        checked: Duration,
        /// When somebody who found it unchanged had begun to look.
        verified: Duration,
    },
    Block {
        file: FileId,
        block: u64,
        bytes: Bytes,
    },
}

impl Value {
    /// Whether it keeps a file open.
    fn is_open(&self) -> bool {
        matches!(self, Self::Entry { entry, .. } if entry.is_open())
    }
}

struct Record {
    value: Value,
    bytes: usize,
    used: bool,
}

impl Record {
    /// About how much memory a value takes, kept.
    fn bytes(value: &Value) -> usize {
        let bytes = match value {
            Value::Entry { path, entry, .. } => path.len() + entry.bytes(),
            Value::Block { bytes, .. } => bytes.len(),
        };
        bytes + size_of::<Self>()
    }
}

/// One partition: its files and blocks, and those being loaded.
pub(crate) struct FileCache {
    records: HashMap<u64, Record, BuildHasherDefault<Hashed>>,
    hand: VecDeque<u64>,
    used: usize,
    budget: usize,
    /// Those that keep a file open, the oldest first. Descriptors are scarcer than memory.
    open: VecDeque<u64>,
    max_open: usize,
    loading: HashMap<u64, Loading>,
}

/// A file that is being loaded, and who else waits for it.
struct Loading {
    host: HostId,
    path: Box<[u8]>,
    waiting: Vec<Trigger<Looked>>,
}

/// A hit.
pub(crate) struct Hit {
    pub(crate) entry: Arc<Entry>,
    /// It is time to look whether the file has changed; said to one asker only.
    pub(crate) stale: bool,
    /// Until when it may be sent without another look at the file.
    pub(crate) until: Duration,
}

impl FileCache {
    /// For so many bytes, and so many open files.
    pub(crate) fn new(budget: usize, max_open: usize) -> Self {
        Self {
            records: HashMap::default(),
            hand: VecDeque::new(),
            used: 0,
            budget,
            open: VecDeque::new(),
            max_open,
            loading: HashMap::new(),
        }
    }

    /// The entry of `path` of a host, whose key is `key`.
    pub(crate) fn entry(
        &mut self,
        key: u64,
        host: HostId,
        path: &[u8],
        now: Duration,
        revalidate: Duration,
    ) -> Option<Hit> {
        let (entry, checked, verified) = self.find(key, host, path)?;
        let stale = now.saturating_sub(*checked) >= revalidate;
        if stale {
            *checked = now;
        }
        Some(Hit { entry: entry.clone(), stale, until: verified.saturating_add(revalidate) })
    }

    /// Whoever began to look at `now` has found that `entry` is still the file.
    pub(crate) fn verify(&mut self, key: u64, entry: &Arc<Entry>, now: Duration) {
        if let Some(Record { value: Value::Entry { entry: own, verified, .. }, .. }) =
            self.records.get_mut(&key)
            && Arc::ptr_eq(own, entry)
        {
            *verified = now;
        }
    }

    /// The same, unless it is time to look whether it has changed.
    pub(crate) fn fresh(
        &mut self,
        key: u64,
        host: HostId,
        path: &[u8],
        now: Duration,
        revalidate: Duration,
    ) -> Option<Arc<Entry>> {
        let (entry, checked, _) = self.find(key, host, path)?;
        (now.saturating_sub(*checked) < revalidate).then(|| entry.clone())
    }

    fn find(
        &mut self,
        key: u64,
        host: HostId,
        path: &[u8],
    ) -> Option<(&Arc<Entry>, &mut Duration, Duration)> {
        let Record { value, used, .. } = self.records.get_mut(&key)?;
        match value {
            Value::Entry { host: h, path: p, entry, checked, verified }
                if (*h, &**p) == (host, path) =>
            {
                *used = true;
                Some((entry, checked, *verified))
            }
            _ => None,
        }
    }

    /// A block of a file.
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

    /// Keeps `value`, in the place of what had its key, if it fits at all.
    pub(crate) fn insert(&mut self, key: u64, value: Value) {
        self.remove(key);
        let bytes = Record::bytes(&value);
        if bytes > self.budget || self.max_open == 0 && value.is_open() {
            return;
        }
        if value.is_open() {
            while self.open.len() >= self.max_open {
                self.remove(self.open[0]);
            }
            self.open.push_back(key);
        }
        self.used += bytes;
        self.records.insert(key, Record { value, bytes, used: false });
        while self.used > self.budget {
            self.evict();
        }
        self.hand.push_back(key);
    }

    /// Whether `entry` is what is kept by this key.
    pub(crate) fn holds(&self, key: u64, entry: &Arc<Entry>) -> bool {
        let value = self.records.get(&key).map(|record| &record.value);
        matches!(value, Some(Value::Entry { entry: own, .. }) if Arc::ptr_eq(own, entry))
    }

    /// Whether so many bytes may be added to what is kept already: not so many that little else
    /// would be left.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        bytes <= self.budget / 4 && self.max_open > 0
    }

    /// Counts anew what has this key: it has grown.
    pub(crate) fn weigh(&mut self, key: u64) {
        let Some(record) = self.records.get_mut(&key) else { return };
        let bytes = Record::bytes(&record.value);
        self.used = self.used - record.bytes + bytes;
        record.bytes = bytes;
        // It has just been asked for.
        record.used = true;
        if record.value.is_open() && !self.open.contains(&key) {
            while self.open.len() >= self.max_open {
                self.remove(self.open[0]);
            }
            self.open.push_back(key);
        }
        while self.used > self.budget {
            self.evict();
        }
    }

    /// Forgets what has this key.
    pub(crate) fn remove(&mut self, key: u64) {
        if let Some(record) = self.records.remove(&key) {
            self.used -= record.bytes;
            self.hand.retain(|other| *other != key);
            self.forget_open(key, &record);
        }
    }

    fn evict(&mut self) {
        let key = self.hand.pop_front().expect("what is over the budget is in the round");
        let record = self.records.get_mut(&key).expect("in the round and kept");
        if std::mem::take(&mut record.used) {
            self.hand.push_back(key);
        } else {
            self.used -= record.bytes;
            if let Some(record) = self.records.remove(&key) {
                self.forget_open(key, &record);
            }
        }
    }

    fn forget_open(&mut self, key: u64, record: &Record) {
        if record.value.is_open() {
            self.open.retain(|other| *other != key);
        }
    }

    /// Says that somebody loads `path`. False if somebody does already, or a path of the same key.
    pub(crate) fn begin_loading(&mut self, key: u64, host: HostId, path: &[u8]) -> bool {
        match self.loading.entry(key) {
            std::collections::hash_map::Entry::Occupied(_) => false,
            std::collections::hash_map::Entry::Vacant(vacant) => {
                vacant.insert(Loading { host, path: path.into(), waiting: Vec::new() });
                true
            }
        }
    }

    /// Waits with others for `path` to be loaded, if it is `path` that is being loaded.
    pub(crate) fn wait_for(
        &mut self,
        key: u64,
        host: HostId,
        path: &[u8],
        trigger: Trigger<Looked>,
    ) -> bool {
        match self.loading.get_mut(&key) {
            Some(loading) if (loading.host, &*loading.path) == (host, path) => {
                loading.waiting.push(trigger);
                true
            }
            _ => false,
        }
    }

    /// The loading is over, one way or another: here is who waits.
    pub(crate) fn end_loading(&mut self, key: u64) -> Vec<Trigger<Looked>> {
        self.loading.remove(&key).map(|loading| loading.waiting).unwrap_or_default()
    }
}

/// Keys are hashes already.
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
    fn the_budget_holds_and_the_used_stay() {
        let mut cache = FileCache::new(5 * (1000 + size_of::<Record>()), 8);
        for n in 0..5 {
            cache.insert(u64::from(n), block(n));
        }
        assert!(get(&mut cache, 0).is_some() && get(&mut cache, 1).is_some());
        cache.insert(5, block(5));
        cache.insert(6, block(6));
        assert!(cache.used <= cache.budget && cache.records.len() == cache.hand.len());
        assert!(get(&mut cache, 0).is_some(), "used since it came");
        assert!(get(&mut cache, 2).is_none(), "the oldest that was not");
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
    fn a_key_is_not_taken_for_a_name() {
        let mut cache = FileCache::new(1 << 20, 8);
        cache.insert(1, block(1));
        assert!(cache.block(1, FileId::of_length(2), 0).is_none());
        assert!(cache.block(1, FileId::of_length(1), 1).is_none());
        assert!(cache.entry(1, HostId(0), b"x", Duration::ZERO, Duration::ZERO).is_none());
        assert!(
            cache.begin_loading(9, HostId(0), b"a") && !cache.begin_loading(9, HostId(0), b"b")
        );
        let (trigger, _event) = phalanx::sync::event();
        assert!(!cache.wait_for(9, HostId(0), b"b", trigger), "another path of the same key");
        let (trigger, _event) = phalanx::sync::event();
        assert!(cache.wait_for(9, HostId(0), b"a", trigger));
        let (trigger, _event) = phalanx::sync::event();
        assert!(!cache.wait_for(9, HostId(1), b"a", trigger), "another host's");
        assert_eq!(cache.end_loading(9).len(), 1);
    }
}
