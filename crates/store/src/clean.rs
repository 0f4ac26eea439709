//! Cleaning: what is alive in the oldest segment is put again at the journal's end, and the segment goes.
//!
//! So a store needs no second form for its state: the journal is all there is, and it is never much
//! longer than what is alive in it (Rosenblum and Ousterhout, SOSP 1991, for a file system). The oldest
//! goes first, always: then a record that takes something away has nothing left to take when it comes
//! to its own segment's turn, and goes with it.
//!
//! It begins when the journal is twice as long as what is alive and two segments more, and ends at one
//! and a half times and one segment more. In between it goes on piece by piece, a piece with each
//! commit, so what it costs is spread over those who cause it: as many bytes are written again as
//! were written where what is alive lies evenly, and up to twice as many where all of it is old.

use phalanx::fs::Dir;

use crate::entry::records;
use crate::frame::{self, FRAME, HEAD};
use crate::source::segment_name;
use crate::writer::Writer;

/// So much of a segment is cleaned at once, in bytes, unless a batch is longer.
const PIECE: u64 = 256 << 10;

/// More segments than this, and two for each that its bytes would fill, are too many.
const SEGMENTS: u64 = 32;

/// A piece of the oldest segment: whole batches, read and checked.
#[derive(Debug)]
pub(crate) struct Piece {
    chore: Chore,
    /// The batches as they stand there.
    bytes: Vec<u8>,
    /// How many.
    batches: u64,
}

/// What is to be cleaned next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chore {
    segment: u64,
    salt: u64,
    /// From this byte of it, where batch `sequence` begins, up to `end`.
    from: u64,
    sequence: u64,
    end: u64,
}

/// How far cleaning has come.
#[derive(Debug, Default)]
pub(crate) struct Cleaning {
    on: bool,
    /// Never again: a piece cannot be read.
    over: bool,
    /// How much of the oldest segment is done: bytes, and the number of the next batch. None for none.
    done: Option<(u64, u64)>,
}

impl Writer {
    /// What is to be cleaned next, if anything is.
    pub(crate) fn chore(&mut self) -> Option<Chore> {
        let extent = self.extent();
        let segment = self.options.segment_bytes.max(HEAD as u64);
        let many = extent.segments > SEGMENTS + 2 * (extent.bytes / segment);
        let long = match self.cleaning.on {
            false => extent.bytes > (2 * extent.live).saturating_add(2 * segment),
            true => extent.bytes > (extent.live + extent.live / 2).saturating_add(segment),
        };
        let was_on = self.cleaning.on;
        self.cleaning.on = (long || many) && self.segments.len() > 1 && !self.cleaning.over;
        if !self.cleaning.on {
            // What was cleaned goes when the next head is written: now, so that it does go.
            self.must_turn |= was_on && !self.spent.is_empty();
            return None;
        }
        let oldest = self.segments.front()?;
        let (from, sequence) = self.cleaning.done.unwrap_or((HEAD as u64, oldest.sequence));
        Some(Chore { segment: oldest.number, salt: self.salt, from, sequence, end: oldest.end })
    }

    /// Cleans no more.
    pub(crate) fn stop_cleaning(&mut self) {
        self.cleaning.over = true;
    }

    /// Appends what is alive of a piece to a batch.
    pub(crate) fn renew(&self, piece: &Piece, batch: &mut Vec<u8>) {
        let Some(oldest) = self.segments.front().filter(|it| it.number == piece.chore.segment)
        else {
            return;
        };
        let mut at = 0;
        for sequence in (piece.chore.sequence..).take(piece.batches as usize) {
            let length = frame::length(&piece.bytes[at..], self.salt, sequence);
            let end = at + length.expect("it was checked");
            let body = &piece.bytes[at + FRAME..end];
            for (record, range) in records(body) {
                let record = record.expect("it was checked");
                let place = oldest.base + piece.chore.from + (at + FRAME + range.start) as u64;
                if let Some(record) = self.index.renewed(&record, place) {
                    record.encode(batch);
                }
            }
            at = end;
        }
    }

    /// Notes that a piece was cleaned.
    pub(crate) fn advance(&mut self, piece: &Piece) {
        let chore = &piece.chore;
        if self.segments.front().is_none_or(|oldest| oldest.number != chore.segment) {
            return;
        }
        let done = (chore.from + piece.bytes.len() as u64, chore.sequence + piece.batches);
        self.cleaning.done = Some(done);
        if done.0 >= chore.end && self.segments.len() > 1 {
            self.segments.pop_front();
            self.spent.push(chore.segment);
            self.cleaning.done = None;
        }
    }
}

impl Chore {
    /// Reads the piece.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub(crate) async fn read(self, directory: &Dir) -> Result<Piece, String> {
        let name = segment_name(self.segment);
        let told = |what: &dyn std::fmt::Display| format!("{name}: byte {}: {what}", self.from);
        if self.from >= self.end {
            return Ok(Piece { chore: self, bytes: Vec::new(), batches: 0 });
        }
        let file = directory.open_file(name.as_bytes(), false).await;
        let file = file.map_err(|error| told(&error))?;
        let most = (self.end - self.from).min(PIECE);
        let mut length = most;
        loop {
            let bytes = file.read_at(self.from, length as usize).await;
            let mut bytes = bytes.map_err(|error| told(&error))?;
            let (end, batches) = self.whole(&bytes);
            if batches > 0 {
                bytes.truncate(end);
                return Ok(Piece { chore: self, bytes, batches });
            }
            // Not even one: it is longer, or broken.
            let first = frame::length(&bytes, self.salt, self.sequence).map(|first| first as u64);
            match first.filter(|first| *first > length && self.from + first <= self.end) {
                Some(first) => length = first,
                None => return Err(told(&"the batch there is broken")),
            }
        }
    }

    /// How many batches are whole at the beginning of `bytes`, and where they end.
    fn whole(&self, bytes: &[u8]) -> (usize, u64) {
        let (mut at, mut batches) = (0, 0);
        while let Some(body) = frame::open(&bytes[at..], self.salt, self.sequence + batches)
            && records(body).all(|(record, _)| record.is_some())
        {
            (at, batches) = (at + FRAME + body.len(), batches + 1);
        }
        (at, batches)
    }
}
