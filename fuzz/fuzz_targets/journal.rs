//! Arbitrary segments are recovered, or an error with a valid position is reported. A complete journal that is
//! truncated is recovered up to the truncation.
#![no_main]

use std::io;
use std::path::Path;

use libfuzzer_sys::fuzz_target;
use phalanx_store::{OpenError, Recovered, Source, first_segment, recover};

const NAME: &str = "000000000001.journal";

struct One<'a>(&'a [u8]);

impl Source for One<'_> {
    fn names(&self) -> io::Result<Vec<String>> {
        Ok(vec![NAME.to_owned()])
    }

    fn read(&self, _: &str, limit: u64) -> io::Result<Vec<u8>> {
        let limit = self.0.len().min(usize::try_from(limit).unwrap_or(usize::MAX));
        Ok(self.0[..limit].to_vec())
    }
}

fn recover_segment(segment: &[u8]) -> Option<Recovered> {
    match recover(&One(segment), Path::new("")) {
        Ok(recovered) => {
            if let Some(torn) = &recovered.torn {
                assert_eq!(torn.offset + torn.bytes, segment.len() as u64);
            }
            for session in recovered.sessions.values() {
                for delivery in session.queue.values() {
                    let there = recovered.message(delivery.message).is_some();
                    assert!(there || matches!(delivery.phase, phalanx_store::Phase::Received(_)));
                }
            }
            Some(recovered)
        }
        Err(OpenError::Corrupt { offset, .. }) => {
            assert!(offset <= segment.len() as u64);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fuzz_target!(|data: &[u8]| {
    recover_segment(data);
    let Some((cut, rest)) = data.split_at_checked(2) else { return };
    // The input determines the ends of batches.
    let batches: Vec<&[u8]> = rest.split(|byte| *byte == 0xff).collect();
    let whole = first_segment(5 << 40, &batches);
    let Some(recovered) = recover_segment(&whole) else { return };
    assert_eq!(recovered.torn, None);
    let cut = usize::from(u16::from_le_bytes([cut[0], cut[1]])) % (whole.len() + 1);
    recover_segment(&whole[..cut]).expect("a prefix of a valid segment is valid");
    if cut > 84 {
        // A changed byte is detected, unless it is in the last batch, which then counts as torn.
        let mut changed = whole.clone();
        changed[cut - 1] ^= 1;
        assert!(recover_segment(&changed).is_none_or(|recovered| recovered.torn.is_some()));
    }
});
