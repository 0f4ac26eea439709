//! Cleaning: what is alive in the oldest segment is put again at the journal's end, and the segment goes.
//!
//! So a store needs no second form for its state: the journal is all there is, and it is never much
//! longer than what is alive in it (Rosenblum and Ousterhout, SOSP 1991, for a file system). The oldest
//! goes first, always: then a record that takes something away has nothing left to take when it comes
//! to its own segment's turn, and goes with it.
//!
//! It begins when the journal is twice as long as what is alive and two segments more, and ends at one
//! and a half times and one segment more. In between it goes on with each commit, by [`CLEAN_RATIO`] times as
//! many bytes as entries were written: so who waits for a short one waits for little. While all of
//! the journal is cleaned once, a fourth of its length is written besides, which is what there is
//! between the two measures. And it grows by no more than a fourth of what is alive, should all of that
//! be the oldest; and the oldest segment is there until all of it is cleaned.
//!
//! What a commit owes is cleaned with the next, which may be a short entry's. That is not to wait for
//! all that a long one owes: so no commit cleans more than a [`PIECE_BYTES`] and what its own entries owe
//! twice (and the rest of a record), and what is left stays owed. That is never more than the longest
//! commit's, twice at most, by a fourth of which the journal may be longer. Only what is to be cleaned
//! with more long ones is read at once, right behind the first, up to [`MAX_PIECE_BYTES`].
//!
//! Where a session ends, say, much is let go at once, and the journal is too long however little is
//! written. Beyond two and a quarter times what is alive *now* and four segments more cleaning
//! [is_urgent](Cleaning::is_urgent): it waits for no entries, and goes on by a piece at a time.
//!
//! So this is what there may be: **two and a quarter times the most that was alive since the journal
//! was last within its measure, four segments and a batch; and on the disk a segment more**, since a
//! file that was cleaned may not go before a later segment's head has said that it does not count. Such
//! a head is written when a segment is full, and when cleaning ends or is_urgent no longer. (A batch is
//! [`MAX_BATCH_BYTES`], or an entry that is longer. One after the other that are longer than twice that outrun
//! the cleaning: so much is not read at once.)
//!
//! While the store is [low](crate::reserve), cleaning is_urgent as long as half a segment is dead, and a segment's file goes
//! as soon as it is cleaned.
//!
//! As many bytes are written again in the long run as were written where what is alive lies evenly, and
//! up to twice as many where all of it is old.

use crate::frame::HEAD_BYTES;
use crate::piece::{Part, Piece, PieceRead};
use crate::writer::{Extent, MAX_BATCH_BYTES, Writer};

/// So many bytes are cleaned for one that is written.
const CLEAN_RATIO: i64 = 4;

/// So many bytes are read at once, and cleaned where it is_urgent or more is owed than by the commit itself.
const PIECE_BYTES: i64 = 64 << 10;

/// No more are read at once, unless a batch is longer.
const MAX_PIECE_BYTES: i64 = 2 * CLEAN_RATIO * MAX_BATCH_BYTES as i64;

/// More segments than this, and two for each that its bytes would fill, are too many.
const MAX_SEGMENTS: u64 = 32;

/// How far cleaning has come.
#[derive(Debug, Default)]
pub(crate) struct Cleaning {
    on: bool,
    /// The journal is too long, whatever is written now.
    is_urgent: bool,
    /// Never again: a piece cannot be read.
    over: bool,
    /// So many bytes were written again.
    pub(crate) rewritten: u64,
    /// So many bytes are still to be cleaned for what was written; negative if the last record was longer.
    debt: i64,
    /// So many bytes of entries the last commit had. The next one's are likely to be as many.
    last: usize,
    /// How much of the oldest segment is done: bytes, and the number of the next batch. None for none.
    done: Option<(u64, u64)>,
    /// What comes behind that.
    piece: Option<Piece>,
}

impl Cleaning {
    /// Whether it goes on with no entries to commit.
    pub(crate) fn is_urgent(&self) -> bool {
        self.is_urgent && self.piece.is_some()
    }

    /// What is to be cleaned with a commit that has so many bytes of entries.
    pub(crate) fn part(&self, bytes: usize) -> Option<Part> {
        let bytes = self.due().min(max_per_commit(bytes));
        let piece = self.piece.as_ref().filter(|_| bytes > 0)?;
        Some(piece.part(bytes as u64))
    }

    /// So many bytes of entries were written.
    pub(crate) fn add_debt(&mut self, bytes: usize) {
        self.debt += CLEAN_RATIO * bytes as i64;
        self.last = bytes;
    }

    /// So many bytes are to be cleaned, if not all at once.
    fn due(&self) -> i64 {
        if self.is_urgent { self.debt.max(PIECE_BYTES) } else { self.debt }
    }
}

/// So many bytes at most are cleaned with a commit that has so many of entries. Twice what these owe, since a part may be
/// cut short where a piece ends: so what is left is made up for.
fn max_per_commit(bytes: usize) -> i64 {
    PIECE_BYTES + 2 * CLEAN_RATIO * bytes as i64
}

impl Writer {
    /// What is to be read next to be cleaned, if anything is.
    pub(crate) fn next_read(&mut self) -> Option<PieceRead> {
        let extent = self.extent();
        let segment = self.options.segment_bytes.max(HEAD_BYTES as u64);
        let Cleaning { on: was_on, is_urgent: was_urgent, .. } = self.cleaning;
        let is_low = self.reserve.is_low();
        let is_long = match was_on {
            // What is dead is worth its cleaning.
            _ if is_low => extent.is_beyond(1.0, segment / 2 + HEAD_BYTES as u64 * extent.segments),
            false => extent.is_beyond(2.0, 2 * segment),
            true => extent.is_beyond(1.5, segment),
        };
        let is_many =
            |factor| extent.segments > factor * MAX_SEGMENTS + 2 * (extent.bytes / segment);
        let cleaning = &mut self.cleaning;
        cleaning.on = (is_long || is_many(1)) && self.segments.len() > 1 && !cleaning.over;
        cleaning.is_urgent =
            cleaning.on && (is_low || extent.is_beyond(2.25, 4 * segment) || is_many(2));
        // What was cleaned goes when the next head is written: now, so that it does go though nothing more may be written.
        let ends = was_on && !cleaning.on || was_urgent && !cleaning.is_urgent;
        self.must_rotate |= (ends || is_low) && !self.obsolete.is_empty();
        // The only segment is cleaned once it has a successor.
        self.must_rotate |= is_low && is_long && self.segments.len() == 1;
        if !cleaning.on {
            (cleaning.debt, cleaning.piece) = (0, None);
            return None;
        }
        if cleaning.piece.is_some() || cleaning.due() <= 0 {
            return None;
        }
        let oldest = self.segments.front()?;
        let (from, sequence) = cleaning.done.unwrap_or((HEAD_BYTES as u64, oldest.sequence));
        let most =
            cleaning.due().min(max_per_commit(cleaning.last)).clamp(PIECE_BYTES, MAX_PIECE_BYTES)
                as u64;
        let (segment, salt, end) = (oldest.number, self.salt, oldest.end);
        Some(PieceRead { segment, salt, from, sequence, end, most })
    }

    /// Cleans this next.
    pub(crate) fn set_piece(&mut self, piece: Piece) {
        self.cleaning.piece = Some(piece);
    }

    /// Cleans no more.
    pub(crate) fn stop_cleaning(&mut self) {
        self.cleaning.over = true;
    }

    /// Appends what is alive of a part to a batch.
    pub(crate) fn rewrite_live(&self, part: Part, batch: &mut Vec<u8>) {
        let (Some(oldest), Some(piece)) = (self.segments.front(), &self.cleaning.piece) else {
            return;
        };
        for (record, at) in piece.records(part) {
            if let Some(record) = self.index.current(&record, oldest.base + at) {
                record.encode(batch);
            }
        }
    }

    /// Notes that a part was cleaned.
    pub(crate) fn advance(&mut self, part: Part) {
        let cleaning = &mut self.cleaning;
        cleaning.debt -= part.bytes as i64;
        let Some(done) = cleaning.piece.as_mut().and_then(|piece| piece.advance(part)) else {
            return;
        };
        (cleaning.piece, cleaning.done) = (None, Some(done));
        if self.segments.len() > 1 && self.segments.front().is_some_and(|it| done.0 >= it.end) {
            self.obsolete.extend(self.segments.pop_front().map(|oldest| oldest.number));
            self.cleaning.done = None;
        }
    }
}

impl Extent {
    /// Whether the journal is longer than so many times what is alive, and so many bytes more.
    fn is_beyond(&self, times: f64, more: u64) -> bool {
        self.bytes as f64 > self.live as f64 * times + more as f64
    }
}
