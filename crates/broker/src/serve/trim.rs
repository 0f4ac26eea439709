//! Returns memory to the system after a peak. The allocator keeps freed memory, which may be nearly all memory of the
//! process.

use std::pin::pin;
use std::time::Duration;

use phalanx::runtime::release_free_memory;
use phalanx::shutdown::draining;
use phalanx::task::Either;
use phalanx::{select, sleep};

use crate::context::Context;
use crate::counters::Counters;

/// A shorter peak may be missed.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);

/// Samples between two checks whether a peak is over.
const SAMPLES_PER_CHECK: u32 = 10;

/// The smallest decrease, in bytes, after which memory is returned.
const MIN_FREED: u64 = 16 << 20;

/// Approximate memory of a connection and its session, in bytes.
const CONNECTION_BYTES: u64 = 2048;

/// Returns memory after each peak, until shutdown.
pub(crate) async fn trim(context: Context) {
    let mut peaks = Peaks::default();
    let (mut drained, mut samples) = (pin!(draining()), 0);
    while let Either::Left(()) = select(sleep(SAMPLE_INTERVAL), drained.as_mut()).await {
        let used = used_bytes(&context.counters);
        peaks.add_sample(used);
        samples = (samples + 1) % SAMPLES_PER_CHECK;
        if samples == 0 && peaks.detect_end(used) {
            // On another thread, because it takes milliseconds. If the stage is full, the broker is too busy for this
            // anyway.
            let _ = context.bridges.files.call(|()| release_free_memory()).await;
        }
    }
}

/// The memory of messages, subscriptions and connections.
fn used_bytes(counters: &Counters) -> u64 {
    let Counters { subscription_bytes, retained_bytes, connected, sessions, .. } = counters;
    let gauges = [subscription_bytes, retained_bytes].map(|gauge| gauge.get().max(0) as u64);
    let clients = connected.get().max(sessions.get()).max(0) as u64;
    gauges.into_iter().sum::<u64>() + counters.queued_bytes() + clients * CONNECTION_BYTES
}

/// Detects the end of a peak.
#[derive(Default)]
struct Peaks {
    /// The maximum since memory was last returned.
    peak: u64,
    /// Bytes used at the last check.
    last: u64,
}

impl Peaks {
    fn add_sample(&mut self, used: u64) {
        self.peak = self.peak.max(used);
    }

    /// Adds a sample, and detects the end of a peak: at most half of it is still used, and memory has stopped
    /// decreasing.
    fn detect_end(&mut self, used: u64) -> bool {
        self.add_sample(used);
        let freed = self.peak - used;
        let is_falling = self.last > used + MIN_FREED / 4;
        self.last = used;
        let has_ended = freed >= MIN_FREED && used <= self.peak / 2 && !is_falling;
        if has_ended {
            self.peak = used;
        }
        has_ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_returned_once_after_each_peak() {
        let mut peaks = Peaks::default();
        let used = [0, 10, 400, 500, 350, 300, 200, 100, 100, 90, 100, 40, 40, 300, 40, 40, 30];
        let over: Vec<_> = used.map(|megabytes| peaks.detect_end(megabytes << 20)).into();
        let at: Vec<_> = (0..over.len()).filter(|at| over[*at]).collect();
        assert_eq!(at, [8, 12, 15]);
    }

    #[test]
    fn a_peak_between_two_checks_is_seen() {
        let mut peaks = Peaks::default();
        assert!(!peaks.detect_end(1 << 20));
        peaks.add_sample(100 << 20);
        assert!(peaks.detect_end(1 << 20));
    }

    #[test]
    fn little_memory_is_not_returned() {
        let mut peaks = Peaks::default();
        assert!(![0, 15, 0, 0, 15, 0, 0].iter().any(|megabytes| peaks.detect_end(megabytes << 20)));
    }
}
