//! The second pass: the live records of a segment, decoded on all processors.

use std::ops::Range;
use std::panic::resume_unwind;
use std::thread::{available_parallelism, scope};

use crate::error::OpenError;
use crate::format::entry::records;
use crate::format::record::{MessageId, Record};
use crate::index::LivePlaces;
use crate::recovery::recovered::{Message, Recovered};
use crate::recovery::segments::{Batches, Files, Segment};

/// The minimum size of the batches that are worth a thread, in bytes.
const MIN_THREAD_BYTES: usize = 256 << 10;

/// Live records of consecutive batches.
#[derive(Default)]
pub(crate) struct LiveRecords<'a> {
    pub(crate) messages: Vec<(MessageId, Message)>,
    pub(crate) retained: Vec<(String, MessageId)>,
    /// Records of sessions.
    pub(crate) others: Vec<Record<'a>>,
}

/// Adds the live records of a segment.
pub(crate) fn recover_live(
    files: &Files<'_>,
    segment: &Segment,
    (places, salt): (&LivePlaces, u64),
    recovered: &mut Recovered,
) -> Result<(), OpenError> {
    let read = files.reread(segment, salt)?;
    let threads = available_parallelism().map_or(1, usize::from);
    let share = (read.bytes.len() / threads).max(MIN_THREAD_BYTES);
    let read = &read;
    let all = scope(|scope| {
        let threads: Vec<_> = shares(&read.batches, share)
            .map(|share| scope.spawn(move || LiveRecords::of(read, share, places)))
            .collect();
        let joined = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|panic| resume_unwind(panic))
        };
        threads.into_iter().map(joined).collect::<Vec<_>>()
    });
    all.into_iter().for_each(|records| recovered.add(records));
    Ok(())
}

/// Divides batches into slices of at least `bytes`, except for the last one.
fn shares(mut rest: &[Range<usize>], bytes: usize) -> impl Iterator<Item = &[Range<usize>]> {
    std::iter::from_fn(move || {
        let begin = rest.first()?.start;
        let count = rest.iter().position(|batch| batch.end - begin >= bytes);
        let (share, after) = rest.split_at(count.map_or(rest.len(), |count| count + 1));
        rest = after;
        Some(share)
    })
}

impl<'a> LiveRecords<'a> {
    fn of(read: &'a Batches, batches: &[Range<usize>], places: &LivePlaces) -> Self {
        let (mut live, base) = (Self::default(), read.segment.base);
        let first = batches.first().map_or(0, |batch| batch.start as u64);
        let mut next = places.from(base + first).peekable();
        for batch in batches {
            for (record, range) in records(&read.bytes[batch.clone()]) {
                let at = base + (batch.start + range.start) as u64;
                if let Some(record) = record.filter(|_| next.next_if_eq(&at).is_some()) {
                    live.push(places.current(record, at));
                }
            }
        }
        live
    }

    /// The records of an entry; `None` if they are invalid, or delete something.
    pub(crate) fn from_bytes(entry: &'a [u8]) -> Option<Self> {
        let mut live = Self::default();
        for (record, _) in records(entry) {
            live.push(record.filter(Record::adds_state)?);
        }
        Some(live)
    }

    fn push(&mut self, record: Record<'a>) {
        match record {
            Record::Message { message, topic, payload, properties, flags, expires } => {
                let (topic, payload, properties) =
                    (topic.to_owned(), payload.to_owned(), properties.to_owned());
                let new = Message { topic, payload, properties, flags, expires };
                self.messages.push((message, new));
            }
            Record::Retain { topic, message } => self.retained.push((topic.to_owned(), message)),
            other => self.others.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_shared_in_order() {
        let batches: Vec<_> = (0..10).map(|n| n * 10..n * 10 + 8).collect();
        for bytes in [1, 8, 9, 30, 100, 1000] {
            let all: Vec<_> = shares(&batches, bytes).collect();
            assert_eq!(all.concat(), batches, "{bytes}");
            let length = |share: &[Range<usize>]| share[share.len() - 1].end - share[0].start;
            assert!(all[..all.len() - 1].iter().all(|share| length(share) >= bytes), "{bytes}");
        }
        assert_eq!(shares(&[], 1).count(), 0);
    }
}
