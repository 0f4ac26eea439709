//! The bytes that survive a power failure: all that were synced, and some of those written since.
//!
//! A write without a later sync survives wholly, in part or not at all, independently of other writes,
//! because the kernel writes back in any order. A write whose sync has failed is not saved by a later
//! successful sync: the kernel has already marked its pages clean (Rebello et al., ATC 2020).

use fastrand::Rng;

/// The durable state of a file.
#[derive(Default)]
pub(super) struct Durable {
    /// Whether its name is durable.
    named: bool,
    bytes: Vec<u8>,
    /// Writes since the last sync, in order.
    since: Vec<Write>,
}

struct Write {
    at: usize,
    /// Empty for an allocation, which makes the file at least `at` bytes long.
    bytes: Vec<u8>,
    /// Whether its sync has failed.
    is_lost: bool,
}

impl Write {
    fn overlaps(&self, other: &Self) -> bool {
        self.at < other.at + other.bytes.len() && other.at < self.at + self.bytes.len()
    }
}

impl Durable {
    /// A file whose name and content are durable.
    pub(super) fn new(bytes: &[u8]) -> Self {
        Self { named: true, bytes: bytes.to_vec(), since: Vec::new() }
    }

    pub(super) fn named(&mut self) {
        self.named = true;
    }

    pub(super) fn record_write(&mut self, at: usize, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.since.push(Write { at, bytes: bytes.to_vec(), is_lost: false });
    }

    /// The file has this length, and zeros at its end.
    pub(super) fn allocated(&mut self, length: usize) {
        self.since.push(Write { at: length, bytes: Vec::new(), is_lost: false });
    }

    pub(super) fn synced(&mut self) {
        for write in std::mem::take(&mut self.since) {
            if write.is_lost {
                self.since.push(write);
            } else {
                self.since.retain(|earlier| !earlier.overlaps(&write));
                write_at(&mut self.bytes, write.at, &write.bytes);
            }
        }
    }

    pub(super) fn failed(&mut self) {
        self.since.iter_mut().for_each(|write| write.is_lost = true);
    }

    /// The content after a power failure at this moment.
    pub(super) fn survivors(&self, rng: &mut Rng) -> Option<Vec<u8>> {
        if !self.named && rng.bool() {
            return None;
        }
        let mut contents = self.bytes.clone();
        for write in &self.since {
            let length = match rng.u8(..3) {
                0 => continue,
                1 => rng.usize(..=write.bytes.len()),
                _ => write.bytes.len(),
            };
            if length == 0 && !write.bytes.is_empty() {
                continue;
            }
            write_at(&mut contents, write.at, &write.bytes[..length]);
        }
        Some(contents)
    }
}

/// Writes `bytes`. The file is at least as long as their end.
fn write_at(file: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    let end = at + bytes.len();
    file.resize(file.len().max(end), 0);
    file[at..end].copy_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn all(durable: &Durable) -> HashSet<Option<Vec<u8>>> {
        (0..200).map(|seed| durable.survivors(&mut Rng::with_seed(seed))).collect()
    }

    #[test]
    fn synced_bytes_survive_and_others_may() {
        let some = |bytes: &[u8]| Some(bytes.to_vec());
        let mut file = Durable::default();
        file.record_write(0, b"ab");
        let contents = [None, some(b""), some(b"a"), some(b"ab")];
        assert_eq!(all(&file), contents.into(), "its name may be lost too");
        file.named();
        file.synced();
        assert_eq!(all(&file), [some(b"ab")].into());
        file.record_write(2, b"c");
        file.failed();
        file.synced();
        assert_eq!(
            all(&file),
            [some(b"ab"), some(b"abc")].into(),
            "a later sync does not repair a failed one"
        );
        file.record_write(3, b"d");
        file.synced();
        assert_eq!(all(&file), [some(b"ab\0d"), some(b"abcd")].into());
        file.allocated(6);
        assert_eq!(all(&file).len(), 4, "the length is not durable yet");
        file.synced();
        assert_eq!(all(&file), [some(b"ab\0d\0\0"), some(b"abcd\0\0")].into());
        file.record_write(2, b"C");
        file.synced();
        assert_eq!(all(&file), [some(b"abCd\0\0")].into(), "a repeated write is durable");
    }
}
