//! A piece of the oldest segment: complete batches that are read and verified together, and cleaned in parts.

use phalanx::fs::Dir;

use crate::directory::names::segment_name;
use crate::format::entry::records;
use crate::format::frame::{self, FRAME_BYTES};
use crate::format::record::Record;

/// A read of the next piece of the oldest segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PieceRead {
    pub(crate) segment: u64,
    pub(crate) salt: u64,
    /// From this offset, where batch `sequence` starts, to `end`.
    pub(crate) from: u64,
    pub(crate) sequence: u64,
    pub(crate) end: u64,
    /// Maximum size in bytes, unless a batch is longer.
    pub(crate) max_bytes: u64,
}

/// Complete batches, and the progress of cleaning them.
#[derive(Debug)]
pub(crate) struct Piece {
    read: PieceRead,
    /// The batches as stored.
    bytes: Vec<u8>,
    /// The number of batches.
    batches: u64,
    /// The offset of each record.
    records: Vec<u32>,
    /// The number of cleaned records.
    cleaned: usize,
}

/// Records of a piece that are cleaned together: the end of their indices, and their size in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    end: usize,
    pub(crate) bytes: u64,
}

impl Piece {
    fn at(&self, record: usize) -> usize {
        self.records.get(record).map_or(self.bytes.len(), |at| *at as usize)
    }

    /// The next part to clean: at least `bytes`, unless the piece ends before, and at least one record.
    pub(crate) fn part(&self, bytes: u64) -> Part {
        let begin = if self.cleaned == 0 { 0 } else { self.at(self.cleaned) };
        let rest = &self.records[self.cleaned..];
        let count = rest.partition_point(|at| (*at as usize - begin) < bytes as usize);
        let end = self.cleaned + count.max(1).min(rest.len());
        Part { end, bytes: (self.at(end) - begin) as u64 }
    }

    /// The records of a part, with their offsets in the segment.
    pub(crate) fn records(&self, part: Part) -> impl Iterator<Item = (Record<'_>, u64)> {
        self.records[self.cleaned..part.end].iter().map(|at| {
            let (record, _) =
                records(&self.bytes[*at as usize..]).next().expect("the entry has a piece");
            (record.expect("checked before"), self.read.from + u64::from(*at))
        })
    }

    /// Records that a part was cleaned. After the last part, returns the start of the next piece: offset and
    /// batch number.
    pub(crate) fn advance(&mut self, part: Part) -> Option<(u64, u64)> {
        self.cleaned = part.end;
        let Self { read, bytes, batches, .. } = self;
        let next = (read.from + bytes.len() as u64, read.sequence + *batches);
        (part.end == self.records.len()).then_some(next)
    }

    /// Verifies the batches, and keeps the complete ones at the start.
    fn verify(mut self) -> Self {
        let PieceRead { salt, sequence, .. } = self.read;
        let mut at = 0;
        while let Some(body) = frame::open(&self.bytes[at..], salt, sequence + self.batches) {
            let before = self.records.len();
            for (record, range) in records(body) {
                if record.is_none() {
                    self.records.truncate(before);
                    break;
                }
                self.records.push((at + FRAME_BYTES + range.start) as u32);
            }
            if self.records.len() == before {
                break;
            }
            (at, self.batches) = (at + FRAME_BYTES + body.len(), self.batches + 1);
        }
        self.bytes.truncate(at);
        self
    }
}

impl PieceRead {
    /// Reads the piece.
    ///
    /// # Errors
    /// A description with the file and the offset.
    pub(crate) async fn load(self, directory: &Dir) -> Result<Piece, String> {
        let name = segment_name(self.segment);
        let describe =
            |reason: &dyn std::fmt::Display| format!("{name}: byte {}: {reason}", self.from);
        let of = |bytes| Piece { read: self, bytes, batches: 0, records: Vec::new(), cleaned: 0 };
        if self.from >= self.end {
            return Ok(of(Vec::new()));
        }
        let file = directory.open_file(name.as_bytes(), false).await;
        let file = file.map_err(|error| describe(&error))?;
        let mut length = (self.end - self.from).min(self.max_bytes);
        loop {
            let bytes = file.read_at(self.from, length as usize).await;
            let bytes = bytes.map_err(|error| describe(&error))?;
            // Not even the first batch is complete, so it is longer than the read, or invalid.
            let first = frame::length(&bytes, self.salt, self.sequence).map(|first| first as u64);
            let piece = of(bytes).verify();
            if piece.batches > 0 {
                return Ok(piece);
            }
            match first.filter(|first| *first > length && self.from + first <= self.end) {
                Some(first) => length = first,
                None => return Err(describe(&"the batch is corrupt")),
            }
        }
    }
}
