//! Divides batches into messages of limited size. Each message is a part of one batch.

use phalanx_store::Batches;

/// Maximum size of a part, in bytes. With its head and headers it is less than NATS's default `max_payload`, 1 MiB.
pub(crate) const MAX_PART_BYTES: usize = 768 * 1024;

const HEADER_BYTES: usize = 24;

/// Maximum size of the head and the headers of a message, in bytes.
pub(crate) const MAX_HEADERS_BYTES: usize = HEADER_BYTES + 128;

/// The head of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PartHeader {
    /// Identifies the process that appends.
    pub(crate) start: u64,
    /// The number of the batch; in other messages, see [`BatchAssembler::open`].
    pub(crate) batch: u64,
    /// The index of the part, and the number of parts in the batch.
    pub(crate) place: u32,
    pub(crate) count: u32,
}

impl PartHeader {
    /// Encodes the message of a part.
    pub(crate) fn encode(self, part: &[u8]) -> Vec<u8> {
        let Self { start, batch, place, count } = self;
        let mut out = Vec::with_capacity(HEADER_BYTES + part.len());
        out.extend_from_slice(&start.to_le_bytes());
        out.extend_from_slice(&batch.to_le_bytes());
        out.extend_from_slice(&place.to_le_bytes());
        out.extend_from_slice(&count.to_le_bytes());
        out.extend_from_slice(part);
        out
    }

    /// Decodes a message into its head and its part.
    pub(crate) fn decode(message: &[u8]) -> Option<(Self, &[u8])> {
        let (start, rest) = message.split_first_chunk()?;
        let (batch, rest) = rest.split_first_chunk()?;
        let (place, rest) = rest.split_first_chunk()?;
        let (count, part) = rest.split_first_chunk()?;
        let head = Self {
            start: u64::from_le_bytes(*start),
            batch: u64::from_le_bytes(*batch),
            place: u32::from_le_bytes(*place),
            count: u32::from_le_bytes(*count),
        };
        Some((head, part))
    }
}

/// Joins parts to batches, in the order of the stream.
pub(crate) struct BatchAssembler {
    pub(crate) batches: Batches,
    /// The head and the parts so far of an incomplete batch.
    partial: Option<(PartHeader, Vec<u8>)>,
}

impl BatchAssembler {
    pub(crate) fn new(journal: u64) -> Self {
        Self { batches: Batches::new(journal), partial: None }
    }

    /// Adds the message with which a process began to append. It drops the batches from its number on, which that process
    /// did not have.
    pub(crate) fn open(&mut self, message: &[u8]) {
        if let Some((head, _)) = PartHeader::decode(message) {
            self.batches.truncate(head.batch);
        }
    }

    /// Adds a message. If an incomplete batch precedes another one, it was not acknowledged, and is dropped.
    pub(crate) fn push(&mut self, message: &[u8]) -> Result<(), &'static str> {
        let (head, part) = PartHeader::decode(message).ok_or("a message is too short")?;
        let mut joined = match self.partial.take() {
            Some((last, joined)) if head == (PartHeader { place: last.place + 1, ..last }) => {
                joined
            }
            _ if head.place == 0 => Vec::new(),
            _ => return Err("a part of a batch is missing"),
        };
        joined.extend_from_slice(part);
        match head.place + 1 == head.count {
            true => self.batches.push(head.batch, joined),
            false => self.partial = Some((head, joined)),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_joined_and_incomplete_batches_dropped() {
        let mut joined = BatchAssembler::new(7);
        let head = |start, batch, place, count| PartHeader { start, batch, place, count };
        let mut push = |header: PartHeader, part: &[u8]| joined.push(&header.encode(part));
        push(head(1, 3, 0, 1), b"three").unwrap();
        push(head(1, 4, 0, 2), b"fo").unwrap();
        push(head(1, 4, 1, 2), b"ur").unwrap();
        // The process ended before it had sent the other parts.
        push(head(1, 5, 0, 3), b"lost").unwrap();
        push(head(2, 5, 0, 1), b"five").unwrap();
        assert!(push(head(2, 6, 1, 2), b"x").is_err() && joined.push(b"short").is_err());
        assert_eq!(joined.batches.bytes(), b"threefourfive".len());
    }
}
