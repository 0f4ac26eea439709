//! A second copy of the journal, such as a replicated stream: all batches from the first valid segment on, byte for byte.
//!
//! A batch is written to the disk and sent to the mirror at the same time. It counts as stored when both have it. After
//! a crash either may have one batch that the other lacks. It was not acknowledged. If the disk has it, it is sent
//! again at the next start. If only the mirror has it, the next start removes it.

use std::collections::BTreeMap;
use std::path::Path;
use std::pin::Pin;
use std::rc::Rc;

use phalanx::net::Bytes;

use crate::directory::names::segment_name;
use crate::error::{MirrorLost, OpenError};
use crate::format::frame::{self, HEAD_BYTES, Head};
use crate::recovery::recovered::Recovered;
use crate::recovery::replay::replay;

/// A future of the journal's processor.
pub type LocalFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// A second copy of the journal, used by one operation at a time, on the journal's processor.
///
/// Its functions try again until they succeed, or the mirror is lost for good: meanwhile nothing is acknowledged.
pub trait Mirror {
    /// Finds or creates the copy of journal `id`, which has the batches from `first` up to and without `next`. Later
    /// ones in the copy are no longer valid. Returns the number of the first batch that the copy lacks.
    fn open(&self, id: u64, first: u64, next: u64) -> LocalFuture<'_, Result<u64, MirrorLost>>;

    /// Whether the copy has lost batches. Then [`append`](Self::append) fails, and the copy is opened again. False after
    /// [`open`](Self::open), also if that has failed.
    fn is_behind(&self) -> bool;

    /// The copy has all batches that were stored before it was opened. Completes when others may rely on it.
    fn complete(&self) -> LocalFuture<'_, Result<(), MirrorLost>>;

    /// Sends a batch. The future completes when it is stored; it is sent even before it is polled.
    fn append(&self, number: u64, batch: Bytes) -> LocalFuture<'_, Result<(), MirrorLost>>;

    /// Removes the batches before this number, which are no longer needed.
    fn trim(self: Rc<Self>, first: u64) -> LocalFuture<'static, ()>;
}

/// Makes a mirror on the journal's processor.
pub type MakeMirror = Box<dyn FnOnce() -> Rc<dyn Mirror> + Send>;

/// The batches of a mirror, in the order in which they were stored.
#[derive(Debug)]
pub struct Batches {
    id: u64,
    all: BTreeMap<u64, Vec<u8>>,
}

impl Batches {
    /// No batch, of the journal `id`.
    pub fn new(id: u64) -> Self {
        Self { id, all: BTreeMap::new() }
    }

    /// Adds the next batch. It replaces another one with its number, and those after it. A batch that was sent again changes
    /// nothing: its process may have ended before it sent the later ones, which are valid.
    pub fn push(&mut self, number: u64, batch: Vec<u8>) {
        if self.all.get(&number) == Some(&batch) {
            return;
        }
        self.all.split_off(&number);
        self.all.insert(number, batch);
    }

    /// Removes the batches from number `next` on: the process that appends from here on does not have them.
    pub fn truncate(&mut self, next: u64) {
        self.all.split_off(&next);
    }

    /// Size of all batches, in bytes.
    pub fn bytes(&self) -> usize {
        self.all.values().map(Vec::len).sum()
    }

    /// The state that they store. `path` names the mirror in errors.
    ///
    /// # Errors
    /// [`OpenError::Corrupt`] if a batch is missing or invalid.
    pub fn recover(self, path: &Path) -> Result<Recovered, OpenError> {
        let Some((sequence, _)) = self.all.first_key_value() else {
            return Ok(Recovered::default());
        };
        let head = Head {
            salt: self.id,
            number: 1,
            base: 0,
            previous: 0,
            previous_end: 0,
            first: 1,
            sequence: *sequence,
            next_session: 1,
            next_message: 1,
        };
        let corrupt = |offset: usize, what| OpenError::Corrupt {
            file: path.into(),
            offset: offset as u64,
            what,
        };
        let mut segment = head.encode().to_vec();
        segment.reserve_exact(self.bytes());
        for (next, (number, batch)) in (*sequence..).zip(&self.all) {
            let opened = frame::open(batch, self.id, next);
            let is_whole = |data: &[u8]| data.len() + frame::FRAME_BYTES == batch.len();
            let is_valid = *number == next && opened.is_some_and(is_whole);
            if !is_valid {
                return Err(corrupt(segment.len() - HEAD_BYTES, "a batch is missing or invalid"));
            }
            segment.extend_from_slice(batch);
        }
        let segments = BTreeMap::from([(segment_name(1), segment)]);
        replay(&segments, path).map(|(_, recovered)| recovered)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_that_were_sent_again_do_not_end_the_mirror() {
        let mut batches = Batches::new(7);
        for (number, batch) in [(1, "a"), (2, "bc"), (3, "def"), (2, "bc")] {
            batches.push(number, batch.into());
        }
        assert_eq!(batches.bytes(), 6);
        batches.push(2, b"other".into());
        assert_eq!(batches.bytes(), 6, "another batch 2, and nothing after it");
    }
}
