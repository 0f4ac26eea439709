//! Counters of the program's own, shown beside the runtime's.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A count of the program's own, such as of what it had to give up, that whoever looks at the program should
/// see: in `/snapshot.json` and `/metrics`, where [`Runtime::register_counter`](crate::Runtime::register_counter) is told of it.
/// Copies count together.
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
    /// Begins at zero. `help` is a sentence on one line.
    ///
    /// # Panics
    /// If `name` is more than small letters, digits and underscores, begins with none of the letters or ends
    /// in `_total`, which `/metrics` adds; if `help` has more than one line.
    pub fn new(name: &'static str, help: &'static str) -> Self {
        let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        assert!(
            name.starts_with(|first: char| first.is_ascii_lowercase())
                && name.bytes().all(is_name)
                && !name.ends_with("_total"),
            "`{name}` is no name for a counter"
        );
        assert!(!help.contains('\n'), "the help of `{name}` has more than one line");
        Self { name, help, label: None, count: Arc::default() }
    }

    /// One of several counters of one name, which a label's name and value tell apart, such as `("reason", "full")`. All of
    /// them have the same label's name and the same help.
    ///
    /// # Panics
    /// As [`new`](Self::new), and if the label's name is more than small letters and underscores.
    pub fn with_label(
        name: &'static str,
        help: &'static str,
        label: (&'static str, &'static str),
    ) -> Self {
        let is_name = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
        assert!(label.0.bytes().all(is_name), "`{}` is no name for a label", label.0);
        Self { label: Some(label), ..Self::new(name, help) }
    }

    /// Counts `more`: one atomic operation, so not for each operation of a hot path.
    pub fn add(&self, more: u64) {
        self.count.fetch_add(more, Ordering::Relaxed);
    }

    /// What it has come to.
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
