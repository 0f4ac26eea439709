//! Received bytes, split into the server's messages.

use crate::error::Fault;

/// The most bytes of a message that is not a row.
const MAX_MESSAGE: usize = 16 << 20;

/// A message: its head of five bytes and its body. The body of a row longer than the limit is left out.
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
        &self.bytes[5..]
    }
}

/// Received bytes that were not processed.
pub(crate) struct Inbox {
    bytes: Vec<u8>,
    /// The number of bytes to discard.
    skip: usize,
    /// The most bytes of a row.
    max_row: usize,
}

impl Inbox {
    pub(crate) fn new(max_row: usize) -> Self {
        Self { bytes: Vec::new(), skip: 0, max_row }
    }

    /// Adds received bytes.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        let skipped = self.skip.min(bytes.len());
        self.skip -= skipped;
        self.bytes.extend_from_slice(&bytes[skipped..]);
    }

    /// Passes the complete messages to `handle`, except for those that a server may send at any time: notices,
    /// notifications and changes of parameters. Stops at an error of `handle`.
    pub(crate) fn process(
        &mut self,
        mut handle: impl FnMut(Frame<'_>) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let mut start = 0;
        let mut processed = Ok(());
        while processed.is_ok()
            && let Some(&[tag, a, b, c, d]) = self.bytes[start..].first_chunk()
        {
            let length = 1 + u32::from_be_bytes([a, b, c, d]) as usize;
            let available = self.bytes.len() - start;
            let is_long = tag == b'D' && length > self.max_row;
            if length < 5 || length > MAX_MESSAGE && tag != b'D' {
                let what = format!("the server sent a message {:?} of {length} bytes", tag as char);
                processed = Err(Fault::Protocol(what));
                break;
            } else if length > available && !is_long {
                break;
            }
            let kept = if is_long { 5 } else { length };
            let frame = Frame { tag, length, bytes: &self.bytes[start..start + kept] };
            if !matches!(tag, b'N' | b'A' | b'S') {
                processed = handle(frame);
            }
            start += length.min(available);
            self.skip += length.saturating_sub(available);
        }
        self.bytes.drain(..start);
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
    fn impossible_lengths_are_errors() {
        for head in [*b"Z\0\0\0\x03", *b"E\xff\xff\xff\xff"] {
            let mut inbox = Inbox::new(100);
            inbox.add(&head);
            assert!(matches!(inbox.process(|_| Ok(())), Err(Fault::Protocol(_))));
        }
    }
}
