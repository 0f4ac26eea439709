//! Cleaning: the live records of the oldest segment are rewritten at the journal's end, and the segment is deleted.
//!
//! The journal is the only form of the state, and its length is proportional to the live data (Rosenblum and
//! Ousterhout, SOSP 1991, for a file system). The oldest segment is always cleaned first. So when a deleting
//! record is cleaned, the record that it deleted is already gone, and the deleting record is dead, too.
//!
//! Cleaning starts when the journal exceeds twice the live data and two segments, and stops at one and a half times and
//! one segment. In between, each commit cleans [`CLEAN_RATIO`](crate::write::cleaning::CLEAN_RATIO) times as many bytes
//! as its entries have, so a short entry waits for little cleaning. While the whole journal is cleaned once, entries of
//! a quarter of its length are written, which is the difference of the two thresholds. The journal grows by at most a
//! quarter of the live data if all of that is in the oldest segments, and the oldest segment remains until all of it is
//! cleaned.
//!
//! The debt of a commit is cleaned with the next commit, which may be short. Therefore a commit cleans at most
//! [`PIECE_BYTES`] plus twice what its own entries require plus the end of a record; the rest remains as debt. The debt
//! is at most twice that of the longest commit, and lengthens the journal by a quarter of its size. Larger pieces, up
//! to [`MAX_PIECE_BYTES`], are read only if further long entries follow.
//!
//! The end of a session can delete a lot of data at a time, without further writes. Beyond two and a quarter times the
//! *current* live data and four segments, cleaning [is urgent](Cleaning::is_urgent): it proceeds piece by piece,
//! without waiting for entries.
//!
//! The bound on the journal is therefore **two and a quarter times the maximum of live data since the journal was last
//! within its threshold, four segments and a batch; and on disk one segment more**, because a cleaned file may be
//! deleted only after a later segment's header excludes it. Such a header is written when a segment is full, and when
//! cleaning stops or is no longer urgent. (A batch is [`MAX_BATCH_BYTES`](crate::options::MAX_BATCH_BYTES) or one
//! longer entry. A sequence of entries of more than twice this size outpaces cleaning, because pieces are limited.)
//!
//! While the store is [low](crate::directory::reserve) on space, cleaning is urgent as long as half a segment is dead,
//! and cleaned files are deleted immediately.
//!
//! In the long run, cleaning rewrites as many bytes as are written if live data is spread evenly, and up to twice as
//! many if all live data is old.

use crate::format::frame::HEAD_BYTES;
use crate::write::cleaning::{Cleaning, MAX_PIECE_BYTES, PIECE_BYTES, max_per_commit};
use crate::write::piece::{Part, Piece, PieceRead};
use crate::write::writer::{Extent, Writer};

/// Maximum number of segments, in addition to two for each that the journal's bytes would fill.
const MAX_SEGMENTS: u64 = 32;

impl Writer {
    /// The next piece to read for cleaning, if any.
    pub(crate) fn next_read(&mut self) -> Option<PieceRead> {
        let extent = self.extent();
        let segment = self.options.segment_bytes.max(HEAD_BYTES as u64);
        let Cleaning { on: was_on, is_urgent: was_urgent, .. } = self.cleaning;
        let is_low = self.reserve.is_low();
        let is_long = match was_on {
            // Space is scarce, so clean even if little is dead.
            _ if is_low => extent.is_beyond(1.0, segment / 2 + HEAD_BYTES as u64 * extent.segments),
            false => extent.is_beyond(2.0, 2 * segment),
            true => extent.is_beyond(1.5, segment),
        };
        let is_many =
            |factor| extent.segments > factor * MAX_SEGMENTS + 2 * (extent.bytes / segment);
        let cleaning = &mut self.cleaning;
        cleaning.on = (is_long || is_many(1)) && self.segments.len() > 1 && !cleaning.is_stopped;
        cleaning.is_urgent =
            cleaning.on && (is_low || extent.is_beyond(2.25, 4 * segment) || is_many(2));
        // Cleaned files are deleted after the next header. Write it now, because no entry may follow.
        let mode_ended = was_on && !cleaning.on || was_urgent && !cleaning.is_urgent;
        self.must_rotate |= (mode_ended || is_low) && !self.obsolete.is_empty();
        // The only segment can be cleaned once it has a successor.
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
        let max_bytes =
            cleaning.due().min(max_per_commit(cleaning.last)).clamp(PIECE_BYTES, MAX_PIECE_BYTES)
                as u64;
        let (segment, salt, end) = (oldest.number, self.salt, oldest.end);
        Some(PieceRead { segment, salt, from, sequence, end, max_bytes })
    }

    /// Sets the next piece to clean.
    pub(crate) fn set_piece(&mut self, piece: Piece) {
        self.cleaning.piece = Some(piece);
    }

    /// Stops cleaning permanently.
    pub(crate) fn stop_cleaning(&mut self) {
        self.cleaning.is_stopped = true;
    }

    /// Appends the live records of a part to a batch.
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

    /// Records that a part was cleaned.
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
    /// Whether the journal is longer than `times` the live data plus `more` bytes.
    fn is_beyond(&self, times: f64, more: u64) -> bool {
        self.bytes as f64 > self.live as f64 * times + more as f64
    }
}
