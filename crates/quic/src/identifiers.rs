//! Connection identifiers that contain the number of their processor.

use std::time::Duration;

use quinn_proto::{ConnectionId, ConnectionIdGenerator, InvalidCid};

/// Bytes of an identifier. The number of the processor uses only a few of the 64 bits.
const BYTES: usize = 8;

/// Makes identifiers whose first two bytes, modulo the number of processors, are the processor's number. Otherwise they
/// are random, so that an observer learns only the processor of a connection, and cannot tell which identifiers belong
/// together (RFC 9000 §5.1).
pub(crate) struct Identifiers {
    processor: u16,
    processors: u16,
    random: Box<dyn FnMut() -> u64 + Send + Sync>,
}

impl Identifiers {
    /// # Panics
    /// If there is no such processor.
    pub(crate) fn new(
        processor: u16,
        processors: u16,
        random: impl FnMut() -> u64 + Send + Sync + 'static,
    ) -> Self {
        assert!(processor < processors, "processor {processor} of {processors}");
        Self { processor, processors, random: Box::new(random) }
    }
}

impl ConnectionIdGenerator for Identifiers {
    fn generate_cid(&mut self) -> ConnectionId {
        let mut bytes = (self.random)().to_be_bytes();
        let first = u16::from_be_bytes([bytes[0], bytes[1]]);
        let group = first / self.processors;
        // The last group may be incomplete.
        let prefix = (group * self.processors).checked_add(self.processor);
        let prefix = prefix.unwrap_or(self.processor);
        bytes[..2].copy_from_slice(&prefix.to_be_bytes());
        ConnectionId::new(&bytes)
    }

    fn validate(&self, id: &ConnectionId) -> Result<(), InvalidCid> {
        match id[..] {
            [first, second, ..]
                if u16::from_be_bytes([first, second]) % self.processors == self.processor =>
            {
                Ok(())
            }
            _ => Err(InvalidCid),
        }
    }

    fn cid_len(&self) -> usize {
        BYTES
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_name_their_processor() {
        for processors in [1, 2, 3, 7, 64, 1000, u16::MAX] {
            for processor in [0, processors / 2, processors - 1] {
                let mut next = 0_u64;
                let random = move || {
                    next = next.wrapping_add(0x0123_4567_89ab_cdef);
                    next
                };
                let mut identifiers = Identifiers::new(processor, processors, random);
                for _ in 0..1000 {
                    let id = identifiers.generate_cid();
                    let first = u16::from_be_bytes([id[0], id[1]]);
                    assert_eq!((first % processors, id.len()), (processor, identifiers.cid_len()));
                    assert!(identifiers.validate(&id).is_ok());
                }
            }
        }
        let mut first = Identifiers::new(0, 2, || 0);
        assert!(Identifiers::new(1, 2, || 0).validate(&first.generate_cid()).is_err());
    }
}
