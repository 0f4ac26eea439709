//! Received bytes, split into the server's messages.

use crate::error::Fault;

/// Maximum number of bytes kept of a message that is not a row.
const MAX_MESSAGE: usize = 16 << 20;

/// Maximum number of bytes kept of an error. Its code precedes its text.
const MAX_ERROR: usize = 64 << 10;

/// The longest message that PostgreSQL sends.
const MAX_LENGTH: usize = 1 << 30;

/// No more is received while so many bytes were not processed.
const MAX_UNPROCESSED: usize = 1 << 20;

/// More memory than this is returned when most of it is free, such as that of a long row.
const MAX_RETAINED_CAPACITY: usize = 4 * MAX_UNPROCESSED;

/// The length of a message's tag and length.
const HEAD: usize = 5;

/// A message: its head of five bytes and its body. The body of a row or a notice longer than the limit is left out, and
/// that of an error is cut.
#[derive(Clone, Copy)]
pub(crate) struct Frame<'a> {
    pub(crate) tag: u8,
    /// The length of the whole message.
    pub(crate) length: usize,
    /// The head and the body.
    pub(crate) bytes: &'a [u8],
}

impl<'a> Frame<'a> {
    /// The body.
    pub(crate) fn body(&self) -> &'a [u8] {
        &self.bytes[HEAD..]
    }
}

/// Received bytes that were not processed.
pub(crate) struct Inbox {
    bytes: Vec<u8>,
    /// The number of bytes that were added since they were processed last. The bytes before are a part of a message.
    added: usize,
    /// The number of bytes to discard.
    skip: usize,
    /// Maximum size of a row, in bytes.
    max_row: usize,
}

impl Inbox {
    pub(crate) fn new(max_row: usize) -> Self {
        Self { bytes: Vec::new(), added: 0, skip: 0, max_row }
    }

    /// Adds received bytes.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        let skipped = self.skip.min(bytes.len());
        self.skip -= skipped;
        self.bytes.extend_from_slice(&bytes[skipped..]);
        self.added += bytes.len();
    }

    /// Whether messages must be processed before more is received.
    pub(crate) fn is_full(&self) -> bool {
        self.added >= MAX_UNPROCESSED
    }

    /// Passes the complete messages to `handle`, except for those that a server may send at any time: notices,
    /// notifications and changes of parameters. Stops at an error of `handle`.
    pub(crate) fn process(
        &mut self,
        mut handle: impl FnMut(Frame<'_>) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        self.added = 0;
        let mut start = 0;
        let mut processed = Ok(());
        while processed.is_ok()
            && let Some(&[tag, a, b, c, d]) = self.bytes[start..].first_chunk()
        {
            let length = 1 + u32::from_be_bytes([a, b, c, d]) as usize;
            let available = self.bytes.len() - start;
            let retained = match tag {
                b'D' if length > self.max_row => HEAD,
                b'N' | b'A' | b'S' if length > MAX_MESSAGE => HEAD,
                b'E' => length.min(MAX_ERROR),
                _ => length,
            };
            if !(HEAD..=MAX_LENGTH).contains(&length) || retained > MAX_MESSAGE && tag != b'D' {
                let reason =
                    format!("the server sent a message {:?} of {length} bytes", tag as char);
                processed = Err(Fault::Protocol(reason));
                break;
            } else if retained > available {
                break;
            }
            let frame = Frame { tag, length, bytes: &self.bytes[start..start + retained] };
            if !matches!(tag, b'N' | b'A' | b'S') {
                processed = handle(frame);
            }
            start += length.min(available);
            self.skip += length.saturating_sub(available);
        }
        self.bytes.drain(..start);
        if self.bytes.len() < MAX_UNPROCESSED && self.bytes.capacity() > MAX_RETAINED_CAPACITY {
            self.bytes.shrink_to(MAX_UNPROCESSED);
        }
        processed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(tag: u8, body: &[u8]) -> Vec<u8> {
        [&[tag][..], &(body.len() as u32 + 4).to_be_bytes(), body].concat()
    }

    /// The handled messages if the bytes arrive in pieces of `piece` bytes.
    fn handled(bytes: &[u8], piece: usize) -> Vec<(u8, usize, Vec<u8>)> {
        let (mut inbox, mut handled) = (Inbox::new(40), Vec::new());
        for piece in bytes.chunks(piece) {
            inbox.add(piece);
            let handle = |frame: Frame<'_>| {
                handled.push((frame.tag, frame.length, frame.body().to_vec()));
                Ok(())
            };
            inbox.process(handle).unwrap();
        }
        handled
    }

    #[test]
    fn messages_are_found_in_pieces_of_any_length() {
        let bytes = [
            message(b'D', b"a row"),
            message(b'N', b"a notice"),
            message(b'D', &[7; 100]),
            message(b'C', b"SELECT 2\0"),
            message(b'Z', b"I"),
        ]
        .concat();
        let expected = [
            (b'D', 10, b"a row".to_vec()),
            (b'D', 105, Vec::new()),
            (b'C', 14, b"SELECT 2\0".to_vec()),
            (b'Z', 6, b"I".to_vec()),
        ];
        for piece in 1..=bytes.len() {
            assert_eq!(handled(&bytes, piece), expected, "{piece}");
        }
    }

    #[test]
    fn of_long_errors_and_notices_only_the_start_is_kept() {
        let body = |start: &[u8]| [start, &vec![b'x'; MAX_MESSAGE]].concat();
        let bytes =
            [message(b'N', &body(b"")), message(b'E', &body(b"C22P02\0M")), message(b'Z', b"I")];
        for piece in [100_000, usize::MAX] {
            let [error, ready] = &handled(&bytes.concat(), piece)[..] else {
                panic!("two messages")
            };
            assert_eq!(error.2.len(), MAX_ERROR - HEAD);
            assert!(error.2.starts_with(b"C22P02\0Mxx"));
            assert_eq!(ready.0, b'Z');
        }
    }

    #[test]
    fn it_is_full_until_its_messages_are_processed() {
        let mut inbox = Inbox::new(MAX_UNPROCESSED * 4);
        // The first part of a row that is longer than the bound.
        let row = message(b'D', &vec![0; MAX_UNPROCESSED * 2]);
        for part in row.chunks(MAX_UNPROCESSED) {
            assert!(!inbox.is_full());
            inbox.add(part);
            assert!(inbox.is_full() || part.len() < MAX_UNPROCESSED);
            inbox.process(|_| Ok(())).unwrap();
        }
        assert!(!inbox.is_full() && inbox.bytes.is_empty());
    }

    #[test]
    fn the_memory_of_a_long_row_is_returned() {
        let mut inbox = Inbox::new(usize::MAX);
        let row = message(b'D', &vec![0; MAX_UNPROCESSED * 8]);
        inbox.add(&row);
        // The start of another one.
        inbox.add(b"D");
        let mut rows = 0;
        let handle = |frame: Frame<'_>| {
            rows += usize::from(frame.length == row.len());
            Ok(())
        };
        inbox.process(handle).unwrap();
        assert_eq!((rows, &*inbox.bytes), (1, &b"D"[..]));
        assert!(inbox.bytes.capacity() <= MAX_UNPROCESSED, "{}", inbox.bytes.capacity());
    }

    #[test]
    fn impossible_lengths_are_errors() {
        for head in [*b"Z\0\0\0\x03", *b"E\xff\xff\xff\xff"] {
            let mut inbox = Inbox::new(100);
            inbox.add(&head);
            assert!(matches!(inbox.process(|_| Ok(())), Err(Fault::Protocol(_))));
        }
    }
}
