//! Histograms of the program, published with those of the runtime.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use phalanx_core::{HISTOGRAM_BUCKETS, Histogram, bucket_of};

use super::Counter;
use super::rows::{ROWS, own_row};

/// A histogram of times of the program, published in `/snapshot.json` and `/metrics` after
/// [`Runtime::register_times`](crate::Runtime::register_times). The buckets are those of [`Histogram`]. Each of 16
/// threads counts in its own cache lines, where its buckets are adjacent; further threads share them. Clones share the
/// counts.
///
/// ```
/// use std::time::Duration;
/// use phalanx::metrics::Times;
///
/// let times = Times::new("kv_read_duration_seconds", "Time from a request to its answer.");
/// times.add(3, Duration::from_micros(2));
/// let (histogram, sum) = times.counts();
/// assert_eq!((histogram.count(), sum), (3, Duration::from_micros(6)));
/// ```
#[derive(Clone, Debug)]
pub struct Times {
    name: &'static str,
    help: &'static str,
    rows: Arc<[Row]>,
}

/// The counts of one thread.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Row {
    /// Nanoseconds, summed.
    sum: AtomicU64,
    buckets: [AtomicU64; HISTOGRAM_BUCKETS],
}

impl Times {
    /// Creates an empty histogram. `help` is one sentence.
    ///
    /// # Panics
    /// If `name` does not end in `_seconds`. Also like [`Counter::new`].
    pub fn new(name: &'static str, help: &'static str) -> Self {
        assert!(name.ends_with("_seconds"), "invalid name `{name}`: the unit is missing");
        let counter = Counter::new(name, help);
        let rows = (0..ROWS).map(|_| Row::default()).collect();
        Self { name: counter.name(), help: counter.help(), rows }
    }

    /// Records `count` times with this mean. This takes two atomic operations on memory of this thread.
    #[inline]
    pub fn add(&self, count: u64, mean: Duration) {
        let (row, ns) = (&self.rows[own_row()], mean.as_nanos() as u64);
        row.buckets[bucket_of(ns)].fetch_add(count, Ordering::Relaxed);
        row.sum.fetch_add(count.wrapping_mul(ns), Ordering::Relaxed);
    }

    /// The times in each bucket, and their sum.
    pub fn counts(&self) -> (Histogram, Duration) {
        let each = |f: &dyn Fn(&Row) -> u64| self.rows.iter().map(f).sum::<u64>();
        let bucket = |n: usize| each(&|row: &Row| row.buckets[n].load(Ordering::Relaxed));
        let sum = each(&|row: &Row| row.sum.load(Ordering::Relaxed));
        (Histogram(std::array::from_fn(bucket)), Duration::from_nanos(sum))
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) fn help(&self) -> &'static str {
        self.help
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_count_together() {
        let times = Times::new("a_seconds", "");
        std::thread::scope(|scope| {
            for _ in 0..40 {
                scope.spawn(|| times.add(2, Duration::from_nanos(1000)));
            }
        });
        let (histogram, sum) = times.counts();
        assert_eq!((histogram.count(), histogram.0[3]), (80, 80));
        assert_eq!(sum, Duration::from_nanos(80_000));
        assert!(std::panic::catch_unwind(|| Times::new("a", "")).is_err());
    }
}
