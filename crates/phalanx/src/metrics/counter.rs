//! Counters of the program, published with those of the runtime.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

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
    label: Option<(&'static str, &'static str)>,
    count: Arc<AtomicU64>,
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
        Self { name, help, label: None, count: Arc::default() }
    }

    /// Creates one of several counters of the same name, distinguished by a label, such as `("reason",
    /// "full")`. All must have the same label name and the same help.
    ///
    /// # Panics
    /// As [`new`](Self::new), and if the label's name contains other characters than lowercase letters and
    /// underscores.
    pub fn with_label(
        name: &'static str,
        help: &'static str,
        label: (&'static str, &'static str),
    ) -> Self {
        let is_name = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
        assert!(
            label.0.bytes().all(is_name),
            "invalid label name `{}`; use lowercase letters and underscores",
            label.0
        );
        Self { label: Some(label), ..Self::new(name, help) }
    }

    /// Adds `more`, with one atomic operation. Avoid it for each operation of a hot path.
    pub fn add(&self, more: u64) {
        self.count.fetch_add(more, Ordering::Relaxed);
    }

    /// The current count.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) fn label(&self) -> Option<(&'static str, &'static str)> {
        self.label
    }

    pub(crate) fn help(&self) -> &'static str {
        self.help
    }
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
