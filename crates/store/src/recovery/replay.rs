//! Recovery: reading the segments and finding the live records.
//!
//! The newest segment with a valid header is the last one. Its header names the first segment, and each
//! header names the previous segment and the length of its valid part. All batches are read in order to build
//! the index, one thread for each half of it; then the [live records](super::live) are read again. Only a few segments
//! are in memory at once, because a journal may be longer than the memory.

use std::panic::resume_unwind;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::{ScopedJoinHandle, scope};

use crate::directory::names::segment_number;
use crate::directory::source::Source;
use crate::error::{OpenError, Torn};
use crate::format::entry::records;
use crate::format::frame::{HEAD_BYTES, Head};
use crate::index::{Index, Place, ReplayHalf};
use crate::recovery::live::recover_live;
use crate::recovery::recovered::Recovered;
use crate::recovery::segments::{Batches, Files, Segment};

/// The result of a replay.
#[derive(Debug)]
pub(crate) struct Replay {
    pub(crate) index: Index,
    /// The oldest first. Empty for a new store.
    pub(crate) segments: Vec<Segment>,
    /// The [tail](Batches::tail) of the last segment.
    pub(crate) tail: Option<(u64, Vec<u8>)>,
    /// Unused files: cleaned segments, and segments that were never started.
    pub(crate) leftovers: Vec<u64>,
    /// `None` for a new store.
    pub(crate) salt: Option<u64>,
    /// The number of the next segment.
    pub(crate) next_segment: u64,
    /// The number of the next batch.
    pub(crate) next_sequence: u64,
}

impl Replay {
    /// The files after the last segment, which have no valid header.
    pub(crate) fn headless(&self) -> impl Iterator<Item = u64> {
        let last = self.segments.last().map_or(0, |last| last.number);
        self.leftovers.iter().copied().filter(move |number| *number > last)
    }
}

/// Reads all segments of `source`; errors refer to them by `path`.
pub(crate) fn replay(source: &dyn Source, path: &Path) -> Result<(Replay, Recovered), OpenError> {
    let files = Files { source, path };
    let mut numbers: Vec<u64> = files
        .io("list", path.into(), source.names())?
        .iter()
        .filter_map(|name| segment_number(name))
        .collect();
    numbers.sort_unstable();
    let mut heads = Vec::new();
    let mut leftovers = Vec::new();
    for number in &numbers {
        let bytes = files.read(*number, HEAD_BYTES as u64 + 1)?;
        match Head::decode(&bytes).filter(|head| head.number == *number) {
            Some(head) => heads.push(head),
            // Nothing is written after a header before it is on disk.
            None if bytes.len() <= HEAD_BYTES => leftovers.push(*number),
            None => return Err(files.corrupt(*number, 0, "the header is corrupt")),
        }
    }
    let next_segment = match numbers.last() {
        Some(last) => last
            .checked_add(1)
            .ok_or_else(|| files.corrupt(*last, 0, "no number is left for the next segment"))?,
        None => 1,
    };
    let mut replay = Replay {
        index: Index::replaying(),
        segments: Vec::new(),
        tail: None,
        leftovers,
        salt: heads.last().map(|head| head.salt),
        next_segment,
        next_sequence: 1,
    };
    let chain = chain(&files, &heads, &mut replay)?;
    let torn = index_all(&files, &chain, &mut replay)?;
    replay.index.finish_replay();
    let (places, salt) = (replay.index.places(), replay.salt.unwrap_or_default());
    let mut recovered = Recovered { torn, ..Recovered::default() };
    for segment in &replay.segments {
        recover_live(&files, segment, (&places, salt), &mut recovered)?;
    }
    recovered.finish(&replay.index);
    Ok((replay, recovered))
}

/// Reads and verifies all segments, while two threads apply their records to the halves of the index. Returns the torn
/// write at the end.
fn index_all(
    files: &Files<'_>,
    chain: &[Head],
    replay: &mut Replay,
) -> Result<Option<Torn>, OpenError> {
    let Replay { index, segments, tail, next_sequence, .. } = replay;
    let (sessions, messages) = index.halves();
    scope(|scope| {
        // The channels buffer nothing, because a segment has up to 64 MiB.
        let ((to_sessions, of_sessions), (to_messages, of_messages)) =
            (sync_channel(0), sync_channel(0));
        let sessions = scope.spawn(move || apply_all(files, &of_sessions, sessions));
        let messages = scope.spawn(move || apply_all(files, &of_messages, messages));
        let mut torn = None;
        let read = chain.iter().enumerate().try_for_each(|(place, head)| {
            let end = chain.get(place + 1).map(|next| next.previous_end);
            let mut read = files.batches(head, end, *next_sequence)?;
            *next_sequence += read.batches.len() as u64;
            segments.push(read.segment);
            torn = read.torn.take();
            *tail = end.is_none().then(|| read.tail());
            let read = Arc::new(read);
            // Fails if the thread has found an error, which is returned below.
            let _ = to_sessions.send(read.clone());
            let _ = to_messages.send(read);
            Ok(())
        });
        drop((to_sessions, to_messages));
        // An invalid record precedes any batch that was read after it.
        joined(sessions).and(joined(messages)).and(read).map(|()| torn)
    })
}

fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}

/// Applies the records of all segments to a half of the index.
fn apply_all(
    files: &Files<'_>,
    segments: &Receiver<Arc<Batches>>,
    half: &mut impl ReplayHalf,
) -> Result<(), OpenError> {
    for read in segments {
        let Batches { segment, bytes, batches, .. } = &*read;
        for batch in batches {
            for (record, range) in records(&bytes[batch.clone()]) {
                let offset = (batch.start + range.start) as u64;
                let Some(record) = record else {
                    let reason = "the record is of an unknown kind";
                    return Err(files.corrupt(segment.number, offset, reason));
                };
                let place = Place { at: segment.base + offset, length: range.len() as u32 };
                half.replay(&record, place);
            }
        }
    }
    Ok(())
}

/// The valid segments, oldest first. All others are leftovers.
fn chain(files: &Files<'_>, heads: &[Head], replay: &mut Replay) -> Result<Vec<Head>, OpenError> {
    let Some(last) = heads.last() else { return Ok(Vec::new()) };
    let mut chain = vec![*last];
    let mut rest = &heads[..heads.len() - 1];
    let mut here = *last;
    while here.number != last.first {
        let place = rest.iter().rposition(|head| head.number == here.previous);
        let Some(place) = place.filter(|_| here.previous >= last.first) else {
            return Err(files.corrupt(here.previous, 0, "the segment is missing"));
        };
        let before = rest[place];
        let follows = before.base.checked_add(here.previous_end) == Some(here.base);
        if before.salt != last.salt || !follows || here.previous_end < HEAD_BYTES as u64 {
            return Err(files.corrupt(before.number, 0, "the next segment does not follow it"));
        }
        // Between two segments there may be only segments without a header, which were never started.
        if let Some(unexpected) = rest.get(place + 1) {
            return Err(files.corrupt(
                unexpected.number,
                0,
                "the segment does not belong to this journal",
            ));
        }
        rest = &rest[..place];
        chain.push(before);
        here = before;
    }
    replay.leftovers.extend(rest.iter().map(|head| head.number));
    replay.index.raise(last.next_session, last.next_message);
    replay.next_sequence = here.sequence;
    chain.reverse();
    Ok(chain)
}
