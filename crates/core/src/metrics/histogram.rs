//! A histogram of times with buckets that double in width, for percentiles without storing each time.
//!
//! The operations of a cohort are counted together at the cohort's mean time, which needs only one addition per cohort.
//! A percentile therefore treats each operation as if it took its cohort's mean, with the precision of a bucket. The
//! maximum is recorded separately; for waits, it is the longest wait of a single operation.

use crate::metrics::counter::Counter;

/// The number of buckets of cohort sizes: 1, 2–3, 4–7 and so on; the last bucket holds 128 and more.
pub const COHORT_BUCKETS: usize = 8;

/// The number of buckets of times. The first ends at 128 ns, each further bucket ends at twice the end of the previous
/// one, and the last is unbounded.
pub const HISTOGRAM_BUCKETS: usize = 28;

/// The first bucket ends at 2⁷ ns.
const FIRST_BUCKET_BITS: u32 = 7;

/// The exclusive upper bound of a bucket, in nanoseconds. Returns `None` for the last bucket, which contains everything
/// above eight seconds.
///
/// ```
/// use phalanx_core::{HISTOGRAM_BUCKETS, bucket_end_ns};
///
/// assert_eq!(bucket_end_ns(0), Some(128));
/// assert_eq!(bucket_end_ns(1), Some(256));
/// assert_eq!(bucket_end_ns(HISTOGRAM_BUCKETS - 1), None);
/// ```
pub fn bucket_end_ns(bucket: usize) -> Option<u64> {
    (bucket < HISTOGRAM_BUCKETS - 1).then(|| 1 << (FIRST_BUCKET_BITS as usize + bucket))
}

/// The bucket for a time in nanoseconds. Used by the crate `phalanx`.
#[doc(hidden)]
pub fn bucket_of(ns: u64) -> usize {
    let bits = u64::BITS - ns.leading_zeros();
    (bits.saturating_sub(FIRST_BUCKET_BITS) as usize).min(HISTOGRAM_BUCKETS - 1)
}

/// The counters of a histogram with a single writer.
#[derive(Default, Debug)]
pub(crate) struct HistogramCounters([Counter; HISTOGRAM_BUCKETS]);

impl HistogramCounters {
    /// Adds `count` operations that took `mean` nanoseconds each.
    #[inline]
    pub(crate) fn add(&self, count: u64, mean: u64) {
        self.0[bucket_of(mean)].add(count);
    }

    pub(crate) fn view(&self) -> Histogram {
        Histogram(std::array::from_fn(|bucket| self.0[bucket].get()))
    }
}

/// A histogram of operations by time: the number in each bucket.
///
/// ```
/// use phalanx_core::Histogram;
///
/// let mut counts = Histogram::default();
/// counts.0[3] = 99; // up to 1,024 ns
/// counts.0[9] = 1; // up to 65,536 ns
/// assert!((512.0..=1024.0).contains(&counts.percentile_ns(50.0)));
/// assert!(counts.percentile_ns(99.5) > 32_768.0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Histogram(pub [u64; HISTOGRAM_BUCKETS]);

impl Histogram {
    /// The number of operations in all buckets.
    pub fn count(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The difference from the earlier histogram `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self(std::array::from_fn(|bucket| self.0[bucket].saturating_sub(before.0[bucket])))
    }

    /// The sum of both histograms.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|bucket| self.0[bucket] + other.0[bucket]))
    }

    /// The time in nanoseconds that `percent` of the operations do not exceed, interpolated linearly
    /// within the bucket; zero if the histogram is empty. `percent` is clamped to 0–100.
    ///
    /// If all operations are in the bucket of 512 to 1,024 ns, the median is 768 ns.
    pub fn percentile_ns(&self, percent: f64) -> f64 {
        let all = self.count() as f64;
        let rank = (percent / 100.0).clamp(0.0, 1.0) * all;
        let mut below = 0.0;
        for (bucket, count) in self.0.iter().enumerate().filter(|(_, count)| **count > 0) {
            let count = *count as f64;
            if below + count >= rank {
                let low = if bucket == 0 {
                    0.0
                } else {
                    (1u64 << (FIRST_BUCKET_BITS as usize + bucket - 1)) as f64
                };
                let high = bucket_end_ns(bucket).map_or(2.0 * low, |end| end as f64);
                return low + (high - low) * ((rank - below) / count).clamp(0.0, 1.0);
            }
            below += count;
        }
        0.0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_time_lies_in_its_bucket() {
        for shift in 0..64 {
            for ns in [(1u64 << shift) - 1, 1 << shift] {
                let bucket = bucket_of(ns);
                assert!(bucket_end_ns(bucket).is_none_or(|end| ns < end), "{ns}");
                assert!(bucket == 0 || bucket_end_ns(bucket - 1).unwrap() <= ns, "{ns}");
            }
        }
        assert_eq!(bucket_of(u64::MAX), HISTOGRAM_BUCKETS - 1);
    }

    #[cfg(not(uncounted))]
    #[test]
    fn a_cohort_is_counted_at_its_mean() {
        let counters = HistogramCounters::default();
        counters.add(10, 1000);
        counters.add(0, 0);
        let times = counters.view();
        assert_eq!((times.count(), times.0[3]), (10, 10));
        let p99 = times.percentile_ns(99.0);
        assert!((512.0..=1024.0).contains(&p99), "{p99}");
    }

    #[test]
    fn percentiles_grow() {
        let mut times = Histogram::default();
        assert_eq!(times.percentile_ns(99.0), 0.0);
        times.0 = std::array::from_fn(|bucket| (bucket as u64 * 7) % 5);
        let all: Vec<f64> = (0..=100).map(|p| times.percentile_ns(f64::from(p))).collect();
        assert!(all.windows(2).all(|pair| pair[0] <= pair[1]), "{all:?}");
    }
}
