//! A second copy of the journal, such as a replicated stream: all batches from the first valid segment on, byte for
//! byte.
//!
//! A batch is written to the disk and sent to the mirror at the same time. It counts as stored when both have it. After
//! a crash either may have one batch that the other lacks. That batch was not acknowledged. If the disk has it, the
//! next start sends it again. If only the mirror has it, the next start removes it.

use std::collections::BTreeMap;
use std::path::Path;
use std::pin::Pin;
use std::rc::Rc;

use phalanx::net::Bytes;

use crate::directory::names::segment_name;
use crate::error::{MirrorLost, OpenError};
use crate::format::frame::{self, Head};
use crate::recovery::recovered::Recovered;
use crate::recovery::replay::replay;

/// A future of the journal's processor.
pub type LocalFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// A second copy of the journal, used by one operation at a time, on the journal's processor.
///
/// Its methods retry until they succeed or the mirror is lost for good. Until they complete, no entry is acknowledged.
pub trait Mirror {
    /// Finds or creates the copy of journal `id`. The journal has the batches from `first` up to but not including
    /// `next`; batches of the copy from `next` on are no longer valid. Returns the number of the first batch that the
    /// copy lacks.
    fn open(&self, id: u64, first: u64, next: u64) -> LocalFuture<'_, Result<u64, MirrorLost>>;

    /// Whether the copy has lost batches. If so, [`append`](Self::append) fails, and the caller opens the copy again.
    /// Returns `false` after [`open`](Self::open), even if that has failed.
    fn is_behind(&self) -> bool;

    /// Tells the mirror that the copy has all batches that were stored before it was opened. Completes when others may
    /// rely on the copy.
    fn complete(&self) -> LocalFuture<'_, Result<(), MirrorLost>>;

    /// Sends a batch. It is sent immediately, not at the first poll of the future, which completes when the batch is
    /// stored.
    fn append(&self, number: u64, batch: Bytes) -> LocalFuture<'_, Result<(), MirrorLost>>;

    /// Removes the batches before this number, which are no longer needed.
    fn trim(self: Rc<Self>, first: u64) -> LocalFuture<'static, ()>;
}

/// A function that creates a mirror. It is called on the journal's processor.
pub type MakeMirror = Box<dyn FnOnce() -> Rc<dyn Mirror> + Send>;

/// Size of the segments in which the batches of a mirror are read, in bytes.
const SEGMENT_BYTES: usize = 64 << 20;

/// The batches of a mirror, in the order in which they were stored.
#[derive(Debug)]
pub struct Batches {
    id: u64,
    all: BTreeMap<u64, Vec<u8>>,
}

impl Batches {
    /// Starts without batches, for the journal `id`.
    pub fn new(id: u64) -> Self {
        Self { id, all: BTreeMap::new() }
    }

    /// Adds the next batch. It replaces a different batch with the same number, and all batches after that. An equal
    /// batch with the same number was sent again and changes nothing: its process may have ended before it sent the
    /// later batches again, which remain valid.
    pub fn push(&mut self, number: u64, batch: Vec<u8>) {
        if self.all.get(&number) == Some(&batch) {
            return;
        }
        self.all.split_off(&number);
        self.all.insert(number, batch);
    }

    /// Removes the batches from number `next` on, because the process that appends next does not have them.
    pub fn truncate(&mut self, next: u64) {
        self.all.split_off(&next);
    }

    /// Size of all batches, in bytes.
    pub fn bytes(&self) -> usize {
        self.all.values().map(Vec::len).sum()
    }

    /// Recovers the state from the batches. `path` names the mirror in errors. Each batch is freed when it has been
    /// read, so that the memory used is that of the batches, of a few segments, and of the state.
    ///
    /// # Errors
    /// [`OpenError::Corrupt`] if a batch is missing or invalid.
    pub fn recover(self, path: &Path) -> Result<Recovered, OpenError> {
        replay(&self.segments(path, SEGMENT_BYTES)?, path).map(|(_, recovered)| recovered)
    }

    /// The batches as segments, each of which ends when it has reached `limit` bytes.
    fn segments(self, path: &Path, limit: usize) -> Result<BTreeMap<String, Vec<u8>>, OpenError> {
        let mut segments = BTreeMap::new();
        let Some((sequence, _)) = self.all.first_key_value() else { return Ok(segments) };
        let mut head = Head {
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
        let (mut segment, mut offset) = (head.encode().to_vec(), 0);
        for (next, (number, batch)) in (*sequence..).zip(self.all) {
            let opened = frame::open(&batch, self.id, next);
            let is_whole = |data: &[u8]| data.len() + frame::FRAME_BYTES == batch.len();
            if number != next || !opened.is_some_and(is_whole) {
                let (file, reason) = (path.into(), "a batch is missing or invalid");
                return Err(OpenError::Corrupt { file, offset, reason });
            }
            if segment.len() >= limit {
                let (previous, previous_end) = (head.number, segment.len() as u64);
                let (number, base) = (previous + 1, head.base + previous_end);
                head = Head { number, base, previous, previous_end, sequence: next, ..head };
                let full = std::mem::replace(&mut segment, head.encode().to_vec());
                segments.insert(segment_name(previous), full);
            }
            segment.extend_from_slice(&batch);
            offset += batch.len() as u64;
        }
        segments.insert(segment_name(head.number), segment);
        Ok(segments)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::entry::Entry;
    use crate::format::record::Record;

    #[test]
    fn batches_are_read_in_segments() {
        let (id, path) = (7, Path::new("mirror"));
        let batch = |number: u64| {
            let (mut entry, topic) = (Entry::new(), format!("t/{number}"));
            entry.push(&Record::Unretain { topic: &topic });
            let mut batch = vec![0; frame::FRAME_BYTES];
            batch.extend_from_slice(entry.bytes());
            frame::seal(&mut batch, id, number);
            batch
        };
        let all = || {
            let mut all = Batches::new(id);
            (3..=50).for_each(|number| all.push(number, batch(number)));
            all
        };
        let segments = all().segments(path, 200).unwrap();
        let longest = segments.values().map(Vec::len).max().unwrap();
        assert!(segments.len() > 4 && longest < 200 + batch(50).len(), "{segments:?}");
        let (replayed, recovered) = replay(&segments, path).unwrap();
        assert_eq!(replayed.next_sequence, 51);
        assert_eq!(format!("{recovered:?}"), format!("{:?}", all().recover(path).unwrap()));
    }
}
