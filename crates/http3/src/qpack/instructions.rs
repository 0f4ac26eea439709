//! The client's encoder and decoder streams (RFC 9204 §4.3 and §4.4). Without a dynamic table they carry few
//! instructions.

/// The only instruction that an encoder may send: Set Dynamic Table Capacity, to zero (RFC 9204 §4.3.1).
const CAPACITY_ZERO: u8 = 0x20;

/// The longest instruction that a decoder may send, in bytes: an integer of 62 bits.
const MAX_BYTES: usize = 11;

/// Whether all of these bytes of the encoder stream are permitted.
pub(crate) fn is_encoder_stream(input: &[u8]) -> bool {
    input.iter().all(|byte| *byte == CAPACITY_ZERO)
}

/// The decoder stream. A client may cancel streams there, which has no effect without a dynamic table.
#[derive(Debug, Default)]
pub(crate) struct DecoderStream {
    /// The beginning of an instruction.
    bytes: [u8; MAX_BYTES],
    held: usize,
}

impl DecoderStream {
    /// Processes all of `input`. Returns `None` if it contains another instruction than Stream Cancellation.
    pub(crate) fn receive(&mut self, input: &[u8]) -> Option<()> {
        for byte in input {
            *self.bytes.get_mut(self.held)? = *byte;
            self.held += 1;
            let instruction = &self.bytes[..self.held];
            (instruction[0] & 0xc0 == 0x40).then_some(())?;
            let is_complete = match instruction {
                [first] => first & 0x3f != 0x3f,
                _ => byte & 0x80 == 0,
            };
            if is_complete {
                self.held = 0;
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use phalanx_http2::primitives::integer;

    use super::*;

    #[test]
    fn an_encoder_may_only_forgo_the_table() {
        assert!(is_encoder_stream(b""));
        assert!(is_encoder_stream(b"\x20\x20"));
        // A capacity, an insertion, a duplicate.
        for input in [b"\x21", b"\xc1", b"\x01"] {
            assert!(!is_encoder_stream(input));
        }
    }

    #[test]
    fn a_decoder_may_only_cancel_streams() {
        let mut stream = DecoderStream::default();
        let mut long = Vec::new();
        integer::encode(&mut long, 0x40, 6, usize::MAX >> 2);
        for input in [b"\x40\x44\x7f", &[0x80, 0x01, 0x41][..], &long, b"\x41"] {
            assert_eq!(stream.receive(input), Some(()), "{input:?}");
        }
        // An acknowledgement, an increment, and an integer without end.
        for input in [b"\x81".to_vec(), b"\x01".to_vec(), [&[0x7f][..], &[0x80; 12]].concat()] {
            assert_eq!(DecoderStream::default().receive(&input), None, "{input:?}");
        }
    }
}
