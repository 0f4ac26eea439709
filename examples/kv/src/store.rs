//! The state of one partition: keys, values and expiry times.
//!
//! Plain single-threaded code: a partitioned stage has exclusive access, so a command in a single method is
//! atomic.

use std::time::Duration;

use indexmap::IndexMap;
use phalanx::net::Bytes;

use crate::glob;
use crate::key::{Key, OwnHash};
use crate::reply::Reply;
use crate::resp::MAX_BULK;

/// An action on one key.
#[derive(Debug)]
pub(crate) enum Action {
    Get,
    Set(Set),
    Delete,
    Exists,
    /// INCR and its variants.
    Add(i64),
    Append(Vec<u8>),
    Length,
    /// Sets the time to live; `None` expires the key immediately.
    Expire(Option<Duration>),
    /// TTL, in units of this many milliseconds.
    TimeLeft(u64),
}

/// SET with its options.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Set {
    pub(crate) value: Bytes,
    pub(crate) expires: Option<Duration>,
    pub(crate) only_if: Option<OnlyIf>,
    /// Whether to answer with the old value.
    pub(crate) get: bool,
}

/// A condition of SET.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnlyIf {
    Absent,
    Present,
}

struct Entry {
    value: Bytes,
    /// On the clock of [`phalanx::time::now`].
    expires: Option<Duration>,
}

/// One partition. The map stores its entries contiguously, so that SCAN and the sweep can iterate in small steps
/// while it changes.
#[derive(Default)]
pub(crate) struct Store {
    entries: IndexMap<Key, Entry, OwnHash>,
}

impl Store {
    /// Applies `action` to `key` at the time `now`.
    pub(crate) fn apply(&mut self, key: Key, action: Action, now: Duration) -> Reply {
        // No command sees an expired entry; the sweep only frees its memory.
        if self.entries.get(&key).is_some_and(|entry| is_over(entry, now)) {
            self.entries.swap_remove(&key);
        }
        match action {
            Action::Get => self.get(&key),
            Action::Set(set) => self.set(key, set, now),
            Action::Delete => Reply::Integer(self.entries.swap_remove(&key).is_some().into()),
            Action::Exists => Reply::Integer(self.entries.contains_key(&key).into()),
            Action::Add(by) => self.add(key, by),
            Action::Append(more) => self.append(key, &more),
            Action::Length => {
                Reply::Integer(self.entries.get(&key).map_or(0, |entry| entry.value.len() as i64))
            }
            Action::Expire(after) => {
                self.expire(&key, after.map(|after| now.saturating_add(after)))
            }
            Action::TimeLeft(unit) => self.time_left(&key, unit, now),
        }
    }

    fn get(&self, key: &Key) -> Reply {
        self.entries.get(key).map_or(Reply::Nil, |entry| Reply::Bulk(entry.value.clone()))
    }

    fn set(&mut self, key: Key, set: Set, now: Duration) -> Reply {
        let Set { value, expires, only_if, get } = set;
        let old = if get { self.get(&key) } else { Reply::Nil };
        let present = only_if.is_some() && self.entries.contains_key(&key);
        if only_if.is_some_and(|only_if| present != (only_if == OnlyIf::Present)) {
            return old; // nil, unless the old value was asked for
        }
        let expires = expires.map(|after| now.saturating_add(after));
        self.entries.insert(key, Entry { value, expires });
        if get { old } else { Reply::OK }
    }

    fn add(&mut self, key: Key, by: i64) -> Reply {
        let old = match self.entries.get(&key) {
            None => Some(0),
            Some(entry) => {
                std::str::from_utf8(&entry.value).ok().and_then(|text| text.parse().ok())
            }
        };
        let Some(old): Option<i64> = old else {
            return Reply::error("ERR value is not an integer or out of range");
        };
        let Some(new) = old.checked_add(by) else {
            return Reply::error("ERR increment or decrement would overflow");
        };
        // An existing expiry time remains.
        let entry = self.entries.entry(key).or_insert(Entry { value: Bytes::new(), expires: None });
        entry.value = new.to_string().into();
        Reply::Integer(new)
    }

    fn append(&mut self, key: Key, more: &[u8]) -> Reply {
        let length = self.entries.get(&key).map_or(0, |entry| entry.value.len());
        if length + more.len() > MAX_BULK {
            return Reply::error("ERR the value would exceed 16 MiB");
        }
        let entry = self.entries.entry(key).or_insert(Entry { value: Bytes::new(), expires: None });
        // Copies only if an answer with the old value is still being sent.
        let mut value = Vec::from(std::mem::take(&mut entry.value));
        value.extend_from_slice(more);
        let length = value.len() as i64;
        entry.value = value.into();
        Reply::Integer(length)
    }

    fn expire(&mut self, key: &Key, at: Option<Duration>) -> Reply {
        match (self.entries.get_mut(key), at) {
            (None, _) => return Reply::Integer(0),
            (Some(entry), Some(_)) => entry.expires = at,
            (Some(_), None) => drop(self.entries.swap_remove(key)),
        }
        Reply::Integer(1)
    }

    fn time_left(&self, key: &Key, unit: u64, now: Duration) -> Reply {
        Reply::Integer(match self.entries.get(key).map(|entry| entry.expires) {
            None => -2,
            Some(None) => -1,
            Some(Some(at)) => {
                let milliseconds = at.saturating_sub(now).as_millis() as u64;
                (milliseconds.saturating_add(unit / 2) / unit) as i64
            }
        })
    }

    /// Number of keys, including expired ones that were not removed yet.
    pub(crate) fn count(&self) -> usize {
        self.entries.len()
    }

    /// Removes all keys.
    pub(crate) fn clear(&mut self) {
        self.entries = IndexMap::default();
    }

    /// Examines up to `count` entries below position `before`. Returns the matching keys and the position to
    /// continue from (zero at the end).
    ///
    /// It proceeds from the back to the front, since a removed entry is replaced by the last one: an unexamined
    /// entry never moves to an examined position. So an iteration returns every key that exists throughout.
    pub(crate) fn scan(
        &self,
        before: usize,
        count: usize,
        pattern: &[u8],
        now: Duration,
    ) -> (usize, Vec<Reply>) {
        let before = before.min(self.entries.len());
        let next = before.saturating_sub(count);
        let entries = self.entries.get_range(next..before).into_iter().flatten();
        let found = entries.filter(|(key, entry)| !is_over(entry, now) && glob::fits(pattern, key));
        (next, found.map(|(key, _)| Reply::bulk(&**key)).collect())
    }

    /// Removes expired entries among up to `count` entries below `before`. Returns the position to continue from
    /// (zero at the end).
    pub(crate) fn sweep(&mut self, before: usize, count: usize, now: Duration) -> usize {
        let before = before.min(self.entries.len());
        let next = before.saturating_sub(count);
        for index in (next..before).rev() {
            if self.entries.get_index(index).is_some_and(|(_, entry)| is_over(entry, now)) {
                self.entries.swap_remove_index(index);
            }
        }
        next
    }
}

fn is_over(entry: &Entry, now: Duration) -> bool {
    entry.expires.is_some_and(|at| at <= now)
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
