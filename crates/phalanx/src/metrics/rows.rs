//! Counts in rows of cache lines, with one row per thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A cache line of counts.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Line([AtomicU64; COUNTS]);

/// The number of counts in a line.
const COUNTS: usize = 8;
/// The number of rows for counts of hot paths.
pub(super) const ROWS: usize = 16;

/// Rows of counts. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    lines: Arc<[Line]>,
    /// The number of lines in a row.
    width: usize,
}

impl Rows {
    /// Rows of zeros.
    pub(super) fn new(rows: usize, counts: usize) -> Self {
        let width = counts.div_ceil(COUNTS);
        Self { lines: (0..rows * width).map(|_| Line::default()).collect(), width }
    }

    #[inline]
    pub(super) fn add(&self, at: usize, more: u64) {
        let row = if self.lines.len() == self.width { 0 } else { own_row() };
        let line = &self.lines[row * self.width + at / COUNTS];
        line.0[at % COUNTS].fetch_add(more, Ordering::Relaxed);
    }

    pub(super) fn sum(&self, at: usize) -> u64 {
        let lines = self.lines.iter().skip(at / COUNTS).step_by(self.width);
        lines.map(|line| line.0[at % COUNTS].load(Ordering::Relaxed)).sum()
    }
}

/// The row of this thread. Rows are assigned round-robin, so threads share them if there are more than [`ROWS`].
pub(super) fn own_row() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static OWN: usize = NEXT.fetch_add(1, Ordering::Relaxed) % ROWS;
    }
    OWN.with(|row| *row)
}
