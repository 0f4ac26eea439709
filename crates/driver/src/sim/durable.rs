//! What of a file a power cut leaves: what was synced, and of what was written since, some.
//!
//! A write that no sync has followed is there wholly, in part or not at all, and each for itself: the
//! kernel writes back in any order. One whose sync has failed is no better off after the next that
//! succeeds: the kernel has forgotten that it is to be written (Rebello et al., ATC 2020).

use fastrand::Rng;

/// The durable side of a file.
#[derive(Default)]
pub(super) struct Durable {
    /// Whether its name is.
    named: bool,
    bytes: Vec<u8>,
    /// In the order in which they were made.
    since: Vec<Write>,
}

struct Write {
    at: usize,
    bytes: Vec<u8>,
    /// Its sync has failed.
    forgotten: bool,
}

impl Write {
    fn touches(&self, other: &Self) -> bool {
        self.at < other.at + other.bytes.len() && other.at < self.at + self.bytes.len()
    }
}

impl Durable {
    /// All of it, name and content.
    pub(super) fn whole(bytes: &[u8]) -> Self {
        Self { named: true, bytes: bytes.to_vec(), since: Vec::new() }
    }

    pub(super) fn named(&mut self) {
        self.named = true;
    }

    pub(super) fn wrote(&mut self, at: usize, bytes: &[u8]) {
        self.since.push(Write { at, bytes: bytes.to_vec(), forgotten: false });
    }

    pub(super) fn synced(&mut self) {
        for write in std::mem::take(&mut self.since) {
            if write.forgotten {
                self.since.push(write);
            } else {
                self.since.retain(|forgotten| !forgotten.touches(&write));
                put(&mut self.bytes, write.at, &write.bytes);
            }
        }
    }

    pub(super) fn failed(&mut self) {
        self.since.iter_mut().for_each(|write| write.forgotten = true);
    }

    /// What a power cut now would leave.
    pub(super) fn survivors(&self, rng: &mut Rng) -> Option<Vec<u8>> {
        if !self.named && rng.bool() {
            return None;
        }
        let mut left = self.bytes.clone();
        for write in &self.since {
            let length = match rng.u8(..3) {
                0 => continue,
                1 => rng.usize(..=write.bytes.len()),
                _ => write.bytes.len(),
            };
            put(&mut left, write.at, &write.bytes[..length]);
        }
        Some(left)
    }
}

fn put(file: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
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
    fn what_was_synced_survives_and_the_rest_may() {
        let some = |bytes: &[u8]| Some(bytes.to_vec());
        let mut file = Durable::default();
        file.wrote(0, b"ab");
        let left = [None, some(b""), some(b"a"), some(b"ab")];
        assert_eq!(all(&file), left.into(), "nor is its name there for sure");
        file.named();
        file.synced();
        assert_eq!(all(&file), [some(b"ab")].into());
        file.wrote(2, b"c");
        file.failed();
        file.synced();
        assert_eq!(
            all(&file),
            [some(b"ab"), some(b"abc")].into(),
            "a failed sync is not made good"
        );
        file.wrote(3, b"d");
        file.synced();
        assert_eq!(all(&file), [some(b"ab\0d"), some(b"abcd")].into());
        file.wrote(2, b"C");
        file.synced();
        assert_eq!(all(&file), [some(b"abCd")].into(), "what is written anew is");
    }
}
