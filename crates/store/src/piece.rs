//! A piece of the oldest segment: whole batches of it, read and checked together, and cleaned a part at a time.

use phalanx::fs::Dir;

use crate::entry::records;
use crate::frame::{self, FRAME_BYTES};
use crate::record::Record;
use crate::source::segment_name;

/// What is to be read of the oldest segment next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PieceRead {
    pub(crate) segment: u64,
    pub(crate) salt: u64,
    /// From this byte of it, where batch `sequence` begins, up to `end`.
    pub(crate) from: u64,
    pub(crate) sequence: u64,
    pub(crate) end: u64,
    /// So many bytes, unless a batch is longer.
    pub(crate) most: u64,
}

/// Whole batches, and how far they are cleaned.
#[derive(Debug)]
pub(crate) struct Piece {
    read: PieceRead,
    /// The batches as they stand there.
    bytes: Vec<u8>,
    /// How many.
    batches: u64,
    /// Where in them each record begins.
    records: Vec<u32>,
    /// So many records are cleaned.
    cleaned: usize,
}

/// The records of a piece that are cleaned together: up to this one, and bytes from where the last have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    end: usize,
    pub(crate) bytes: u64,
}

impl Piece {
    fn at(&self, record: usize) -> usize {
        self.records.get(record).map_or(self.bytes.len(), |at| *at as usize)
    }

    /// What is to be cleaned next: so many bytes at least, unless the piece ends before, and a record at least.
    pub(crate) fn part(&self, bytes: u64) -> Part {
        let begin = if self.cleaned == 0 { 0 } else { self.at(self.cleaned) };
        let rest = &self.records[self.cleaned..];
        let count = rest.partition_point(|at| (*at as usize - begin) < bytes as usize);
        let end = self.cleaned + count.max(1).min(rest.len());
        Part { end, bytes: (self.at(end) - begin) as u64 }
    }

    /// The records of a part, and the places of these in the segment.
    pub(crate) fn records(&self, part: Part) -> impl Iterator<Item = (Record<'_>, u64)> {
        self.records[self.cleaned..part.end].iter().map(|at| {
            let (record, _) = records(&self.bytes[*at as usize..]).next().expect("there is one");
            (record.expect("it was checked"), self.read.from + u64::from(*at))
        })
    }

    /// A part is cleaned. If that was the last, where the next piece begins: the byte, and the number of the batch there.
    pub(crate) fn advance(&mut self, part: Part) -> Option<(u64, u64)> {
        self.cleaned = part.end;
        let Self { read, bytes, batches, .. } = self;
        let next = (read.from + bytes.len() as u64, read.sequence + *batches);
        (part.end == self.records.len()).then_some(next)
    }

    /// The batches that are whole at its beginning.
    fn whole(mut self) -> Self {
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
    /// What is wrong with it, and where.
    pub(crate) async fn load(self, directory: &Dir) -> Result<Piece, String> {
        let name = segment_name(self.segment);
        let told = |what: &dyn std::fmt::Display| format!("{name}: byte {}: {what}", self.from);
        let of = |bytes| Piece { read: self, bytes, batches: 0, records: Vec::new(), cleaned: 0 };
        if self.from >= self.end {
            return Ok(of(Vec::new()));
        }
        let file = directory.open_file(name.as_bytes(), false).await;
        let file = file.map_err(|error| told(&error))?;
        let mut length = (self.end - self.from).min(self.most);
        loop {
            let bytes = file.read_at(self.from, length as usize).await;
            let bytes = bytes.map_err(|error| told(&error))?;
            // Not even one: it is longer, or broken.
            let first = frame::length(&bytes, self.salt, self.sequence).map(|first| first as u64);
            let piece = of(bytes).whole();
            if piece.batches > 0 {
                return Ok(piece);
            }
            match first.filter(|first| *first > length && self.from + first <= self.end) {
                Some(first) => length = first,
                None => return Err(told(&"the batch there is broken")),
            }
        }
    }
}
