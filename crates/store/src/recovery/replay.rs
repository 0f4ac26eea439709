//! Recovery: reads the segments, and finds the live records.
//!
//! The newest segment with a valid header is the last one. Its header names the first segment, and each
//! header names the previous segment and the length of its valid part. All batches are read in order to build
//! the index; then the live records are read again.

use std::io;
use std::path::{Path, PathBuf};

use crate::directory::names::{segment_name, segment_number};
use crate::directory::source::Source;
use crate::error::{OpenError, Torn};
use crate::format::entry::records;
use crate::format::frame::{self, FRAME_BYTES, HEAD_BYTES, Head};
use crate::index::{Index, Place};
use crate::recovery::recovered::Recovered;

/// A valid segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) number: u64,
    /// Position of its first byte in the journal.
    pub(crate) base: u64,
    /// The length of its valid part.
    pub(crate) end: u64,
    /// The number of its first batch.
    pub(crate) sequence: u64,
}

/// The result of a replay.
#[derive(Debug)]
pub(crate) struct Replay {
    pub(crate) index: Index,
    /// The oldest first. Empty for a new store.
    pub(crate) segments: Vec<Segment>,
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
    /// Files after the last segment without a valid header.
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
    let mut replay = Replay {
        index: Index::replaying(),
        segments: Vec::new(),
        leftovers,
        salt: heads.last().map(|head| head.salt),
        next_segment: numbers.last().map_or(1, |last| last + 1),
        next_sequence: 1,
    };
    let chain = chain(&files, &heads, &mut replay)?;
    let mut recovered = Recovered::default();
    for (place, head) in chain.iter().enumerate() {
        let end = chain.get(place + 1).map(|next| next.previous_end);
        let segment = files.batches(head, end, &mut replay, &mut recovered.torn)?;
        replay.segments.push(segment);
    }
    replay.index.finish_replay();
    for segment in &replay.segments {
        recover_live(&files, segment, &replay, &mut recovered)?;
    }
    recovered.finish(&replay.index);
    Ok((replay, recovered))
}

/// The valid segments, oldest first. Others are leftovers.
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
        if let Some(stranger) = rest.get(place + 1) {
            return Err(files.corrupt(
                stranger.number,
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

/// Collects the live records of a segment.
fn recover_live(
    files: &Files<'_>,
    segment: &Segment,
    replay: &Replay,
    recovered: &mut Recovered,
) -> Result<(), OpenError> {
    let salt = replay.salt.unwrap_or_default();
    let bytes = files.read(segment.number, segment.end)?;
    let (mut at, mut sequence) = (HEAD_BYTES, segment.sequence);
    while at < bytes.len() {
        let Some(body) = frame::open(&bytes[at..], salt, sequence) else {
            return Err(files.corrupt(
                segment.number,
                at as u64,
                "the segment changed while it was read",
            ));
        };
        for (record, range) in records(body) {
            let place = segment.base + (at + FRAME_BYTES + range.start) as u64;
            if let Some(record) = record.and_then(|record| replay.index.current(&record, place)) {
                recovered.apply(&record);
            }
        }
        (at, sequence) = (at + FRAME_BYTES + body.len(), sequence + 1);
    }
    Ok(())
}

struct Files<'a> {
    source: &'a dyn Source,
    path: &'a Path,
}

impl Files<'_> {
    fn file(&self, number: u64) -> PathBuf {
        self.path.join(segment_name(number))
    }

    fn io<T>(
        &self,
        what: &'static str,
        path: PathBuf,
        result: io::Result<T>,
    ) -> Result<T, OpenError> {
        result.map_err(|source| OpenError::Io { what, path, source })
    }

    fn read(&self, number: u64, most: u64) -> Result<Vec<u8>, OpenError> {
        self.io("read", self.file(number), self.source.read(&segment_name(number), most))
    }

    fn corrupt(&self, number: u64, offset: u64, what: &'static str) -> OpenError {
        OpenError::Corrupt { file: self.file(number), offset, what }
    }

    /// Applies all batches of a segment, up to `end` or a torn write.
    fn batches(
        &self,
        head: &Head,
        end: Option<u64>,
        replay: &mut Replay,
        torn: &mut Option<Torn>,
    ) -> Result<Segment, OpenError> {
        if head.sequence != replay.next_sequence {
            return Err(self.corrupt(head.number, 0, "earlier batches are missing"));
        }
        let bytes = self.read(head.number, end.unwrap_or(u64::MAX))?;
        if end.is_some_and(|end| (bytes.len() as u64) < end) {
            return Err(self.corrupt(head.number, bytes.len() as u64, "the segment is too short"));
        }
        let mut at = HEAD_BYTES;
        while at < bytes.len() {
            let sequence = replay.next_sequence;
            let Some(body) = frame::open(&bytes[at..], head.salt, sequence) else {
                let rest = &bytes[at..];
                if end.is_some() || frame::find_later(rest, head.salt, sequence).is_some() {
                    return Err(self.corrupt(head.number, at as u64, "the batch is corrupt"));
                }
                let file = self.file(head.number);
                *torn = Some(Torn { file, offset: at as u64, bytes: rest.len() as u64 });
                break;
            };
            self.apply(head, at, body, &mut replay.index)?;
            at += FRAME_BYTES + body.len();
            replay.next_sequence += 1;
        }
        let Head { number, base, sequence, .. } = *head;
        Ok(Segment { number, base, end: at as u64, sequence })
    }

    fn apply(
        &self,
        head: &Head,
        at: usize,
        body: &[u8],
        index: &mut Index,
    ) -> Result<(), OpenError> {
        for (record, range) in records(body) {
            let offset = (at + FRAME_BYTES + range.start) as u64;
            let Some(record) = record else {
                let what = "the record is of an unknown kind";
                return Err(self.corrupt(head.number, offset, what));
            };
            let length = range.len() as u32;
            index.apply(&record, Place { at: head.base + offset, length });
        }
        Ok(())
    }
}
