//! The decoder's dynamic table (RFC 7541 §2.3.2).

use std::collections::VecDeque;

use crate::hpack::decoder::Field;

/// Largest size that the server permits (SETTINGS_HEADER_TABLE_SIZE, RFC 9113 §6.5.2): the initial value.
pub(crate) const MAX_SIZE: usize = 4096;
/// Overhead of an entry (RFC 7541 §4.1).
const OVERHEAD: usize = 32;
/// Bytes of evicted entries that are kept before they are removed in one step.
const MAX_EVICTED_BYTES: usize = 4096;

/// An entry; its bytes start at `start`.
struct Entry {
    /// Offset of the name since the table was created, modulo 2^32. The value follows the name.
    start: u32,
    name: u32,
    value: u32,
    valid: bool,
}

impl Entry {
    fn size(&self) -> usize {
        (self.name + self.value) as usize + OVERHEAD
    }
}

/// A table. Its memory is at most the size of its entries, twice [`MAX_SIZE`], and the field being added.
pub(crate) struct DynamicTable {
    /// Names and values: evicted entries, then the oldest entry to the newest.
    pub(crate) bytes: Vec<u8>,
    /// Offset of `bytes[0]` since the table was created, modulo 2^32.
    base: u32,
    /// Newest first.
    entries: VecDeque<Entry>,
    size: usize,
    max: usize,
}

impl DynamicTable {
    pub(crate) fn new() -> Self {
        Self { bytes: Vec::new(), base: 0, entries: VecDeque::new(), size: 0, max: MAX_SIZE }
    }

    /// Returns the entry at `index`; zero is the newest.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<Field<'_>> {
        let entry = self.entries.get(index)?;
        let start = entry.start.wrapping_sub(self.base) as usize;
        let (name, rest) = self.bytes[start..].split_at(entry.name as usize);
        Some(Field { name, value: &rest[..entry.value as usize], valid: entry.valid })
    }

    /// Copies the name of an entry to the end of [`bytes`](Self::bytes). Returns whether the entry is valid.
    pub(crate) fn copy_name(&mut self, index: usize) -> Option<bool> {
        let entry = self.entries.get(index)?;
        let start = entry.start.wrapping_sub(self.base) as usize;
        self.bytes.extend_from_within(start..start + entry.name as usize);
        Some(entry.valid)
    }

    /// Adds the entry whose name and value were appended to [`bytes`](Self::bytes) from `start`. An entry
    /// larger than the table empties it (RFC 7541 §4.4).
    pub(crate) fn insert(&mut self, start: usize, name: usize, valid: bool) {
        let value = self.bytes.len() - start - name;
        let size = name + value + OVERHEAD;
        self.evict(self.max.saturating_sub(size));
        if size > self.max {
            // No entry is left.
            (self.bytes, self.base) = (Vec::new(), 0);
            return;
        }
        self.size += size;
        let start = self.base.wrapping_add(start as u32);
        self.entries.push_front(Entry { start, name: name as u32, value: value as u32, valid });
        let oldest = self.entries.back().map_or(start, |entry| entry.start);
        let evicted = oldest.wrapping_sub(self.base) as usize;
        if evicted > MAX_EVICTED_BYTES {
            self.bytes.drain(..evicted);
            self.base = oldest;
        }
    }

    /// Changes the maximum size. Returns `None` above [`MAX_SIZE`].
    pub(crate) fn resize(&mut self, max: usize) -> Option<()> {
        self.max = Some(max).filter(|max| *max <= MAX_SIZE)?;
        self.evict(max);
        if self.entries.is_empty() {
            (self.bytes, self.base) = (Vec::new(), 0);
        }
        Some(())
    }

    fn evict(&mut self, max: usize) {
        while self.size > max {
            self.size -= self.entries.pop_back().map_or(self.size, |entry| entry.size());
        }
    }

    /// Size of the entries (RFC 7541 §4.1).
    #[cfg(test)]
    pub(crate) fn size(&self) -> usize {
        assert_eq!(self.entries.iter().map(Entry::size).sum::<usize>(), self.size);
        self.size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded() {
        let mut table = DynamicTable::new();
        for n in 0..100_000_usize {
            let start = table.bytes.len();
            table.bytes.extend_from_slice(format!("name{n}").as_bytes());
            let name = table.bytes.len() - start;
            table.bytes.resize(start + name + n % 700, b'x');
            table.insert(start, name, true);
            let newest = table.get(0).unwrap();
            assert_eq!(newest.name, format!("name{n}").as_bytes());
            assert_eq!(newest.value.len(), n % 700);
            assert!(table.size() <= MAX_SIZE);
            assert!(table.bytes.len() <= 2 * MAX_SIZE + 1000);
        }
        let count = table.entries.len();
        assert_eq!(
            table.get(count - 1).unwrap().name,
            format!("name{}", 100_000 - count).as_bytes()
        );
        assert!(table.get(count).is_none());
        let start = table.bytes.len();
        table.bytes.resize(start + MAX_SIZE, b'x');
        table.insert(start, 10, true);
        assert_eq!((table.size(), table.bytes.len()), (0, 0), "an entry larger than the table");
    }
}
