//! Reading segments and verifying their batches.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::directory::names::segment_name;
use crate::directory::source::Source;
use crate::error::{OpenError, Torn};
use crate::format::frame::{self, FRAME_BYTES, HEAD_BYTES, Head};

/// The files of a journal; errors refer to them by `path`.
pub(crate) struct Files<'a> {
    pub(crate) source: &'a dyn Source,
    pub(crate) path: &'a Path,
}

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

/// A segment in memory.
pub(crate) struct Batches {
    pub(crate) segment: Segment,
    pub(crate) bytes: Vec<u8>,
    /// The records of each batch, in `bytes`.
    pub(crate) batches: Vec<Range<usize>>,
    /// The torn write after them.
    pub(crate) torn: Option<Torn>,
}

impl Files<'_> {
    fn file(&self, number: u64) -> PathBuf {
        self.path.join(segment_name(number))
    }

    pub(crate) fn io<T>(
        &self,
        action: &'static str,
        path: PathBuf,
        result: io::Result<T>,
    ) -> Result<T, OpenError> {
        result.map_err(|source| OpenError::Io { action, path, source })
    }

    pub(crate) fn read(&self, number: u64, limit: u64) -> Result<Vec<u8>, OpenError> {
        self.io("read", self.file(number), self.source.read(&segment_name(number), limit))
    }

    pub(crate) fn corrupt(&self, number: u64, offset: u64, reason: &'static str) -> OpenError {
        OpenError::Corrupt { file: self.file(number), offset, reason }
    }

    /// Reads a segment that starts with batch `sequence`, up to `end` or a torn write.
    pub(crate) fn batches(
        &self,
        head: &Head,
        end: Option<u64>,
        sequence: u64,
    ) -> Result<Batches, OpenError> {
        let Head { number, base, salt, .. } = *head;
        if head.sequence != sequence {
            return Err(self.corrupt(number, 0, "earlier batches are missing"));
        }
        let bytes = self.read(number, end.unwrap_or(u64::MAX))?;
        if end.is_some_and(|end| (bytes.len() as u64) < end) {
            return Err(self.corrupt(number, bytes.len() as u64, "the segment is too short"));
        }
        let (batches, at) = verify(&bytes, salt, sequence);
        let mut torn = None;
        if at < bytes.len() {
            let (rest, sequence) = (&bytes[at..], sequence + batches.len() as u64);
            if end.is_some() || frame::find_later(rest, salt, sequence).is_some() {
                return Err(self.corrupt(number, at as u64, "the batch is corrupt"));
            }
            let file = self.file(number);
            let (offset, bytes) = (at as u64, rest.len() as u64);
            // The position is compared after all segments.
            torn = Some(Torn { file, offset, bytes, unacknowledged: false });
        }
        let segment = Segment { number, base, end: at as u64, sequence };
        Ok(Batches { segment, bytes, batches, torn })
    }

    /// Reads a segment again.
    pub(crate) fn reread(&self, segment: &Segment, salt: u64) -> Result<Batches, OpenError> {
        let bytes = self.read(segment.number, segment.end)?;
        let (batches, at) = verify(&bytes, salt, segment.sequence);
        if (at as u64) < segment.end {
            let reason = "the segment changed while it was read";
            return Err(self.corrupt(segment.number, at as u64, reason));
        }
        Ok(Batches { segment: *segment, bytes, batches, torn: None })
    }
}

impl Batches {
    /// The last batch, or the header if there is none, with its offset: the only part of the last segment that may not
    /// be on the disk.
    pub(crate) fn tail(&self) -> (u64, Vec<u8>) {
        let head = 0..HEAD_BYTES;
        let tail = self.batches.last().map_or(head, |last| last.start - FRAME_BYTES..last.end);
        (tail.start as u64, self.bytes[tail].to_vec())
    }
}

/// The records of the valid batches of a segment, and their end.
fn verify(bytes: &[u8], salt: u64, first: u64) -> (Vec<Range<usize>>, usize) {
    let (mut batches, mut at) = (Vec::new(), HEAD_BYTES.min(bytes.len()));
    while let Some(body) = frame::open(&bytes[at..], salt, first + batches.len() as u64) {
        let begin = at + FRAME_BYTES;
        at = begin + body.len();
        batches.push(begin..at);
    }
    (batches, at)
}
