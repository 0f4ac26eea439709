//! The latency of requests: from their first byte to the end of the write with their responses.

use std::time::Duration;

use phalanx::metrics::Times;
use phalanx::time::clock;

/// Requests with responses that are not sent yet. Stored in one word, because each connection reserves memory for
/// several: the lowest 16 bits are their number, the others the time at which the first byte of the first request was
/// received.
#[derive(Clone, Copy, Default)]
pub(crate) struct Answered(u64);

const COUNT: u64 = 0xffff;
/// The unit of the time is 2⁷ ns, the width of the smallest bucket.
const UNIT_BITS: u32 = 7;

impl Answered {
    /// Adds a request whose first byte was received at `began`. Requests that are answered together count from the first.
    #[inline]
    pub(crate) fn add(&mut self, began: Duration) {
        match self.0 & COUNT {
            0 => self.0 = (began.as_nanos() as u64 >> UNIT_BITS) << 16 | 1,
            COUNT => (),
            _ => self.0 += 1,
        }
    }

    /// Counts the requests, whose responses have just been sent.
    #[inline]
    pub(crate) fn sent(self, latency: &Times) {
        let count = self.0 & COUNT;
        if count > 0 {
            let began = Duration::from_nanos(self.0 >> 16 << UNIT_BITS);
            // The cached time would be the time at which the request was received, if the response is written in the
            // same cohort.
            latency.add(count, clock().saturating_sub(began));
        }
    }
}
