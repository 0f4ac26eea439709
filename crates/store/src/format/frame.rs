//! The journal's format: segments with a header, containing batches in frames.
//!
//! A frame consists of checksum, length, number and records, and takes one write and one sync. A power failure may
//! leave any part of the last frame. The numbers distinguish this from corruption in the middle: batch 8 is written
//! only after batch 7 is on disk, so if 7 is invalid and 8 is valid, the cause was not a crash. The numbers are
//! combined with the journal's secret *salt*, so that no message can look like a frame.
//!
//! A segment's header contains the end of its predecessor, so a torn tail need not be truncated. It also contains the
//! first valid segment, so files may be deleted in any order. Nothing is renamed or truncated, and only an
//! unacknowledged batch is overwritten, with the same or another batch, after a failed write. At a start, the last batch
//! or header is overwritten with the same bytes. The journal thus depends on few properties of the disk.

/// Size of a segment's header, in bytes.
pub(crate) const HEAD_BYTES: usize = 84;
/// Size of a batch's header, in bytes.
pub(crate) const FRAME_BYTES: usize = 16;

const MAGIC: [u8; 8] = *b"PHXJRNL1";

/// The header of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// The journal's salt.
    pub(crate) salt: u64,
    /// The segment's number. Later segments have higher numbers, with gaps.
    pub(crate) number: u64,
    /// Position of its first byte in the journal.
    pub(crate) base: u64,
    /// The previous segment; 0 for none.
    pub(crate) previous: u64,
    /// The length of its valid part, in bytes.
    pub(crate) previous_end: u64,
    /// The first valid segment.
    pub(crate) first: u64,
    /// The number of its first batch.
    pub(crate) sequence: u64,
    /// The lowest unused session ID.
    pub(crate) next_session: u64,
    /// The lowest unused message ID.
    pub(crate) next_message: u64,
}

impl Head {
    pub(crate) fn encode(&self) -> [u8; HEAD_BYTES] {
        let mut out = [0; HEAD_BYTES];
        out[..8].copy_from_slice(&MAGIC);
        for (place, field) in out[8..80].chunks_exact_mut(8).zip(self.fields()) {
            place.copy_from_slice(&field.to_le_bytes());
        }
        let sum = crc32fast::hash(&out[..80]);
        out[80..].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// Decodes a header; `None` if it is incomplete or invalid.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..HEAD_BYTES)?;
        if bytes[..8] != MAGIC || crc32fast::hash(&bytes[..80]) != u32_at(bytes, 80) {
            return None;
        }
        let [
            salt,
            number,
            base,
            previous,
            previous_end,
            first,
            sequence,
            next_session,
            next_message,
        ] = std::array::from_fn(|n| u64_at(bytes, 8 + 8 * n));
        Some(Self {
            salt,
            number,
            base,
            previous,
            previous_end,
            first,
            sequence,
            next_session,
            next_message,
        })
    }

    fn fields(&self) -> [u64; 9] {
        [
            self.salt,
            self.number,
            self.base,
            self.previous,
            self.previous_end,
            self.first,
            self.sequence,
            self.next_session,
            self.next_message,
        ]
    }
}

/// Completes a frame: `out` contains space for the header, followed by the records.
pub(crate) fn seal(out: &mut [u8], salt: u64, sequence: u64) {
    let length = u32::try_from(out.len() - FRAME_BYTES).expect("a batch is bounded");
    out[4..8].copy_from_slice(&length.to_le_bytes());
    out[8..16].copy_from_slice(&(sequence ^ salt).to_le_bytes());
    let sum = crc32fast::hash(&out[4..]);
    out[..4].copy_from_slice(&sum.to_le_bytes());
}

/// The total length of the frame at the start of `bytes`, according to its header; `None` if it is not batch
/// `sequence`.
pub(crate) fn length(bytes: &[u8], salt: u64, sequence: u64) -> Option<usize> {
    (bytes.len() >= FRAME_BYTES && u64_at(bytes, 8) ^ salt == sequence)
        .then(|| FRAME_BYTES + u32_at(bytes, 4) as usize)
}

/// The records of batch `sequence`, if it is complete and valid at the start of `bytes`.
pub(crate) fn open(bytes: &[u8], salt: u64, sequence: u64) -> Option<&[u8]> {
    let frame = bytes.get(..length(bytes, salt, sequence)?)?;
    (crc32fast::hash(&frame[4..]) == u32_at(frame, 0)).then(|| &frame[FRAME_BYTES..])
}

/// The offset in `bytes` of a valid batch later than `sequence`.
pub(crate) fn find_later(bytes: &[u8], salt: u64, sequence: u64) -> Option<usize> {
    // An upper bound of the number of batches.
    let max_distance = bytes.len() as u64;
    (0..bytes.len().saturating_sub(FRAME_BYTES - 1)).find(|at| {
        let number = u64_at(bytes, at + 8) ^ salt;
        number.wrapping_sub(sequence + 1) < max_distance
            && open(&bytes[*at..], salt, number).is_some()
    })
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// The first segment of a journal with these batches: for fuzzing, which cannot guess checksums.
#[doc(hidden)]
pub fn first_segment(salt: u64, batches: &[&[u8]]) -> Vec<u8> {
    let (number, first) = (1, 1);
    let (base, previous, previous_end, sequence) = (0, 0, 0, 1);
    let (next_session, next_message) = (1, 1);
    let head = Head {
        salt,
        number,
        base,
        previous,
        previous_end,
        first,
        sequence,
        next_session,
        next_message,
    };
    let mut out = head.encode().to_vec();
    for (sequence, batch) in (1..).zip(batches) {
        let mut frame = [&[0; FRAME_BYTES], *batch].concat();
        seal(&mut frame, salt, sequence);
        out.append(&mut frame);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD_OF_TWO: Head = Head {
        salt: 0x1234_5678_9abc_def0,
        number: 2,
        base: 1000,
        previous: 1,
        previous_end: 1000,
        first: 1,
        sequence: 17,
        next_session: 3,
        next_message: 40,
    };

    fn framed(records: &[u8], salt: u64, sequence: u64) -> Vec<u8> {
        let mut out = [&[0; FRAME_BYTES], records].concat();
        seal(&mut out, salt, sequence);
        out
    }

    #[test]
    fn every_changed_byte_is_detected() {
        let head = HEAD_OF_TWO.encode();
        assert_eq!(Head::decode(&head), Some(HEAD_OF_TWO));
        let frame = framed(b"records", 5, 8);
        assert_eq!(open(&frame, 5, 8), Some(&b"records"[..]));
        assert_eq!(open(&frame, 5, 7), None, "another batch");
        assert_eq!(open(&frame, 4, 8), None, "another journal");
        for at in 0..HEAD_BYTES {
            let mut head = head;
            head[at] ^= 0x10;
            assert_eq!(Head::decode(&head), None, "byte {at}");
        }
        for at in 0..frame.len() {
            let mut frame = frame.clone();
            frame[at] ^= 0x10;
            assert_eq!(open(&frame, 5, 8), None, "byte {at}");
            assert_eq!(open(&frame[..at], 5, 8), None, "cut at {at}");
        }
    }

    #[test]
    fn later_batches_are_found_without_false_matches() {
        let frames = [framed(b"one", 5, 1), framed(b"two", 5, 2), framed(b"", 5, 3)].concat();
        assert_eq!(find_later(&frames, 5, 1), Some(FRAME_BYTES + 3));
        assert_eq!(find_later(&frames, 5, 2), Some(2 * FRAME_BYTES + 6));
        assert_eq!(find_later(&frames, 5, 3), None);
        assert_eq!(find_later(&frames, 6 << 40, 0), None, "another journal's");
    }
}
