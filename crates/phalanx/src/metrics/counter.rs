//! Counters of the program, published with those of the runtime.

use std::sync::Arc;

use super::family::Member;
use super::rows::Rows;

/// A counter of the program, published in `/snapshot.json` and `/metrics` after
/// [`Runtime::register_counter`](crate::Runtime::register_counter). Clones share the count.
///
/// ```
/// use phalanx::metrics::Counter;
/// use phalanx::Runtime;
///
/// let lost = Counter::new("kv_writes_lost", "Writes that failed on every disk.");
/// let runtime = Runtime::new().register_counter(&lost);
/// lost.add(2);
/// assert_eq!(lost.clone().count(), 2);
/// ```
#[derive(Clone, Debug)]
pub struct Counter {
    name: &'static str,
    help: &'static str,
    label: Option<(&'static str, Arc<str>)>,
    rows: Rows,
    /// The index of this count in each row.
    at: usize,
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
        Self { name, help, label: None, rows: Rows::new(1, 1), at: 0 }
    }

    /// Creates one of several counters with the same name that are distinguished by a label, such as `("reason",
    /// "full")`. All must have the same label name and the same help.
    ///
    /// # Panics
    /// Like [`new`](Self::new), and if the label's name contains other characters than lowercase letters and
    /// underscores.
    pub fn with_label(name: &'static str, help: &'static str, label: (&'static str, &str)) -> Self {
        check_label(label.0);
        Self::new(name, help).labelled(label.0, label.1.into())
    }

    /// The same metric, but counted in `rows` at index `at`.
    pub(super) fn counted_in(self, rows: &Rows, at: usize) -> Self {
        Self { rows: rows.clone(), at, ..self }
    }

    /// Adds `more`, with one atomic operation. If many threads count often, use a
    /// [`CounterBlock`](super::CounterBlock).
    pub fn add(&self, more: u64) {
        self.rows.add(self.at, more);
    }

    /// The current count.
    pub fn count(&self) -> u64 {
        self.rows.sum(self.at)
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
        Self { label: Some((label, value)), rows: Rows::new(1, 1), at: 0, ..self.clone() }
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
