//! Adjacent counters for hot paths.

use std::sync::Arc;

use super::Counter;
use super::rows::{ROWS, Rows};

/// Counters for hot paths. Each of 16 threads has its own cache lines; further threads share them. Eight counters share
/// a cache line, so counters that are updated together should be adjacent. Eight counters take 1 KiB for all threads.
///
/// ```
/// use phalanx::Runtime;
/// use phalanx::metrics::{Counter, CounterBlock};
///
/// let counters = CounterBlock::new([
///     Counter::new("kv_reads", "Answered reads."),
///     Counter::new("kv_writes", "Answered writes."),
/// ]);
/// let runtime = counters.counters().iter().fold(Runtime::new(), Runtime::register_counter);
/// std::thread::scope(|scope| (0..2).for_each(|_| drop(scope.spawn(|| counters.add(1, 3)))));
/// let [reads, writes] = counters.counters() else { unreachable!() };
/// assert_eq!((reads.count(), writes.count()), (0, 6));
/// ```
#[derive(Clone, Debug)]
pub struct CounterBlock {
    rows: Rows,
    counters: Arc<[Counter]>,
}

impl CounterBlock {
    /// Creates a block of these counters, starting at zero.
    pub fn new(counters: impl IntoIterator<Item = Counter>) -> Self {
        let counters: Vec<_> = counters.into_iter().collect();
        let rows = Rows::new(ROWS, counters.len());
        let of = |(at, counter): (usize, Counter)| counter.counted_in(&rows, at);
        Self { counters: counters.into_iter().enumerate().map(of).collect(), rows }
    }

    /// Adds `more` to the counter with index `at`.
    ///
    /// # Panics
    /// If the block has no such counter.
    #[inline]
    pub fn add(&self, at: usize, more: u64) {
        assert!(at < self.counters.len(), "the block has no counter {at}");
        self.rows.add(at, more);
    }

    /// The counters, in order.
    pub fn counters(&self) -> &[Counter] {
        &self.counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_several_lines_are_distinct() {
        let block = CounterBlock::new((0..19).map(|_| Counter::new("n", "")));
        let count = || (0..19).for_each(|at| block.add(at, at as u64));
        std::thread::scope(|scope| (0..20).for_each(|_| drop(scope.spawn(count))));
        block.counters()[18].add(1);
        let counts: Vec<u64> = block.counters().iter().map(Counter::count).collect();
        let expected: Vec<u64> = (0..19).map(|at| 20 * at + u64::from(at == 18)).collect();
        assert_eq!(counts, expected);
    }
}
