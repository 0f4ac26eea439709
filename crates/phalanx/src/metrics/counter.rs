//! Counters of the program, published with those of the runtime.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::family::Member;

/// A counter of the program, published in `/snapshot.json` and `/metrics` after
/// [`Runtime::register_counter`](crate::Runtime::register_counter). Clones share the count.
///
/// ```
/// use phalanx::metrics::Counter;
/// use phalanx::Runtime;
///
/// let lost = Counter::new("kv_writes_lost", "Writes that no disk has taken.");
/// let runtime = Runtime::new().register_counter(&lost);
/// lost.add(2);
/// assert_eq!(lost.clone().count(), 2);
/// ```
#[derive(Clone, Debug)]
pub struct Counter {
    name: &'static str,
    help: &'static str,
    label: Option<(&'static str, Arc<str>)>,
    count: Arc<[Cell]>,
}

/// A part of a count, in a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Cell(AtomicU64);

/// Cells of a counter for hot paths.
pub(super) const CELLS: usize = 16;

/// Zero in this many cells.
fn cells(number: usize) -> Arc<[Cell]> {
    (0..number).map(|_| Cell::default()).collect()
}

/// The cell of this thread. Threads share one only if there are more than [`CELLS`].
pub(super) fn own_cell() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static OWN: usize = NEXT.fetch_add(1, Ordering::Relaxed) % CELLS;
    }
    OWN.with(|own| *own)
}

impl Counter {
    /// Creates a counter at zero. `help` is one sentence.
    ///
    /// # Panics
    /// If `name` contains other characters than lowercase letters, digits and underscores, does not start
    /// with a letter, or ends in `_total`, which `/metrics` adds; if `help` has more than one line.
    pub fn new(name: &'static str, help: &'static str) -> Self {
        let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        assert!(
            name.starts_with(|first: char| first.is_ascii_lowercase())
                && name.bytes().all(is_name)
                && !name.ends_with("_total"),
            "invalid counter name `{name}`; use lowercase letters, digits and underscores, without `_total`"
        );
        assert!(!help.contains('\n'), "the help of `{name}` has more than one line");
        Self { name, help, label: None, count: cells(1) }
    }

    /// Creates one of several counters of the same name, distinguished by a label, such as `("reason",
    /// "full")`. All must have the same label name and the same help.
    ///
    /// # Panics
    /// As [`new`](Self::new), and if the label's name contains other characters than lowercase letters and
    /// underscores.
    pub fn with_label(name: &'static str, help: &'static str, label: (&'static str, &str)) -> Self {
        check_label(label.0);
        Self::new(name, help).labelled(label.0, label.1.into())
    }

    /// A counter for hot paths, at zero: each thread counts in a cache line of its own. It takes 1 KiB.
    ///
    /// ```
    /// use phalanx::metrics::Counter;
    ///
    /// let served = Counter::new("kv_reads", "Answered reads.").per_thread();
    /// std::thread::scope(|scope| (0..2).for_each(|_| drop(scope.spawn(|| served.add(3)))));
    /// assert_eq!(served.count(), 6);
    /// ```
    #[must_use]
    pub fn per_thread(self) -> Self {
        Self { count: cells(CELLS), ..self }
    }

    /// Adds `more`, with one atomic operation. If many threads count often, use [`per_thread`](Self::per_thread).
    pub fn add(&self, more: u64) {
        let cell = if self.count.len() == 1 { 0 } else { own_cell() };
        self.count[cell].0.fetch_add(more, Ordering::Relaxed);
    }

    /// The current count.
    pub fn count(&self) -> u64 {
        self.count.iter().map(|cell| cell.0.load(Ordering::Relaxed)).sum()
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) fn label(&self) -> Option<(&'static str, &str)> {
        self.label.as_ref().map(|(name, value)| (*name, &**value))
    }

    pub(crate) fn help(&self) -> &'static str {
        self.help
    }
}

impl Member for Counter {
    fn labelled(&self, label: &'static str, value: Arc<str>) -> Self {
        Self { label: Some((label, value)), count: cells(self.count.len()), ..self.clone() }
    }
}

/// Checks the name of a label.
///
/// # Panics
/// If it contains other characters than lowercase letters and underscores.
pub(super) fn check_label(name: &str) {
    let is_name = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
    assert!(
        name.bytes().all(is_name),
        "invalid label name `{name}`; use lowercase letters and underscores"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        Counter::new("a1_b", "");
        for name in ["", "1a", "A", "a-b", "a b", "a_total", "_a"] {
            assert!(std::panic::catch_unwind(|| Counter::new(name, "")).is_err(), "{name}");
        }
    }
}
