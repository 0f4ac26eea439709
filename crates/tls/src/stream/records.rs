//! Boundaries of records in received bytes (RFC 8446 §5.1).

/// Length of a record's header.
const HEADER: usize = 5;

/// Position in the records of one direction.
#[derive(Debug, Default)]
pub(crate) struct Records {
    /// Bytes of the header that were received, and the length in it.
    header: usize,
    length: usize,
}

impl Records {
    /// Counts received bytes.
    pub(crate) fn received(&mut self, mut bytes: &[u8]) {
        while let [byte, rest @ ..] = bytes {
            if self.header < HEADER {
                // The length is in the last two bytes.
                self.length = (self.length << 8 | usize::from(*byte)) & 0xffff;
                self.header += 1;
                bytes = rest;
            } else {
                let length = self.length.min(bytes.len());
                self.length -= length;
                bytes = &bytes[length..];
            }
            if self.header == HEADER && self.length == 0 {
                *self = Self::default();
            }
        }
    }

    /// Whether the last record is complete.
    pub(crate) fn is_whole(&self) -> bool {
        self.header == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_end_where_their_length_says() {
        let lengths = [1, 300, 0, 16_640];
        let (mut bytes, mut ends) = (Vec::new(), vec![0]);
        for length in lengths {
            bytes.extend([23, 3, 3]);
            bytes.extend(u16::to_be_bytes(length));
            bytes.extend(vec![23; length.into()]);
            ends.push(bytes.len());
        }
        for piece in [1, 2, 7, 1000, bytes.len()] {
            let (mut records, mut at) = (Records::default(), 0);
            for piece in bytes.chunks(piece) {
                records.received(piece);
                at += piece.len();
                assert_eq!(records.is_whole(), ends.contains(&at), "{at}");
            }
        }
    }
}
