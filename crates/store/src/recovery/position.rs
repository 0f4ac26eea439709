//! The position file, which records the end of the journal in order to tell lost data from an unfinished write.
//!
//! A crash may leave any part of the last batch, which was not acknowledged. All earlier batches are on the
//! disk. The journal alone does not show that its end was cut off, or that its newest files are missing. So
//! each commit writes the position of its end to a small separate file, without a sync. A kill leaves the
//! newest position. A power cut leaves an older one, or fragments, whose checksum is wrong and which are
//! ignored. The position is never ahead of the journal, because it is written after the commit is on the
//! disk.

use std::path::Path;

use phalanx::fs::{Dir, File};

use crate::directory::names::{POSITION, segment_name};
use crate::directory::source::Source;
use crate::error::Lost;
use crate::recovery::replay::Replay;

const MAGIC: [u8; 8] = *b"PHXPOSN1";
const LENGTH: usize = 44;

/// A position of the journal's end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Position {
    /// The journal's salt.
    pub(crate) salt: u64,
    /// The newest segment.
    pub(crate) segment: u64,
    /// The length of its valid part.
    pub(crate) end: u64,
    /// The number of the next batch.
    pub(crate) next_sequence: u64,
}

impl Position {
    fn encode(&self) -> [u8; LENGTH] {
        let mut out = [0; LENGTH];
        out[..8].copy_from_slice(&MAGIC);
        let fields = [self.salt, self.segment, self.end, self.next_sequence];
        for (place, field) in out[8..40].chunks_exact_mut(8).zip(fields) {
            place.copy_from_slice(&field.to_le_bytes());
        }
        let sum = crc32fast::hash(&out[..40]);
        out[40..].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// Decodes a position; `None` if it is incomplete or invalid.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; LENGTH] = bytes.get(..LENGTH)?.try_into().ok()?;
        let field = |n: usize| {
            let at = 8 + 8 * n;
            u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
        };
        let is_whole =
            bytes[..8] == MAGIC && crc32fast::hash(&bytes[..40]).to_le_bytes() == bytes[40..];
        let [salt, segment, end, next_sequence] = std::array::from_fn(field);
        is_whole.then_some(Self { salt, segment, end, next_sequence })
    }

    /// The last written position, if it exists and is valid.
    pub(crate) fn read(source: &dyn Source) -> Option<Self> {
        // If it is unreadable, there is only the journal itself to rely on.
        Self::decode(&source.read(POSITION, LENGTH as u64).ok()?)
    }

    /// Compares this position with the end of the journal. Returns the loss if the journal ends before it.
    pub(crate) fn compare(self, replay: &Replay, path: &Path) -> Option<Lost> {
        let is_other = replay.salt.is_some_and(|salt| salt != self.salt);
        if !is_other && replay.next_sequence >= self.next_sequence {
            return None;
        }
        let last = replay.segments.last();
        Some(Lost {
            path: path.into(),
            file: segment_name(self.segment).into(),
            bytes: self.end,
            found_file: last.map(|last| segment_name(last.number).into()),
            found_bytes: last.map_or(0, |last| last.end),
            missing: (!is_other).then(|| self.next_sequence - replay.next_sequence),
            accepted: false,
        })
    }
}

/// The position file, and the last position written to it.
#[derive(Debug, Default)]
pub(crate) struct PositionFile {
    file: Option<File>,
    last: Position,
}

impl PositionFile {
    /// Writes a changed position. If that fails, the older position remains, which is still valid.
    pub(crate) async fn put(&mut self, position: Position, directory: &Dir) {
        if position == self.last {
            return;
        }
        let file = match self.file.take() {
            Some(file) => file,
            None => match directory.create_private(POSITION.as_bytes()).await {
                Ok(file) => file,
                Err(_) => return,
            },
        };
        if file.write_at(0, position.encode().to_vec()).await.is_ok() {
            self.last = position;
        }
        self.file = Some(file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_position_is_ignored() {
        let position = Position { salt: 7, segment: 3, end: 900, next_sequence: 41 };
        let bytes = position.encode();
        assert_eq!(Position::decode(&bytes), Some(position));
        for at in 0..LENGTH {
            let mut changed = bytes;
            changed[at] ^= 4;
            assert_eq!(Position::decode(&changed), None, "byte {at}");
            assert_eq!(Position::decode(&bytes[..at]), None, "cut at {at}");
        }
    }
}
