//! The text of a recorder, in pieces.

use std::fmt::Write;
use std::ops::Bound;
use std::sync::atomic::Ordering;

use super::{Distribution, Family, Recorder, Registry, Series, bound};

/// The size in bytes after which a piece ends, which corresponds to some tens of microseconds of work.
const PIECE_BYTES: usize = 16 * 1024;

/// The pieces of a recorder's text. The series are locked while a piece is rendered; series that are registered between
/// two pieces may be missing.
pub(crate) struct Pieces<'r, F> {
    recorder: &'r Recorder,
    publishes: F,
    /// The position where the next piece begins; `None` after the last one.
    at: Option<Position>,
}

/// A place in the text.
#[derive(Default)]
struct Position {
    family: String,
    /// The labels of the last rendered series of this family; `None` before its head.
    labels: Option<String>,
}

impl<'r, F: Fn(&str) -> bool> Pieces<'r, F> {
    pub(super) fn new(recorder: &'r Recorder, publishes: F) -> Self {
        // The empty name is lower than every family name.
        Self { recorder, publishes, at: Some(Position::default()) }
    }
}

impl<F: Fn(&str) -> bool> Iterator for Pieces<'_, F> {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        let (mut at, mut out) = (self.at.take()?, String::new());
        let registry = self.recorder.lock();
        let families = (Bound::Included(&*at.family), Bound::Unbounded);
        let families = registry.families.range::<str, _>(families);
        for (name, family) in families.filter(|(name, _)| (self.publishes)(name)) {
            let after = at.labels.take();
            self.at = family.render(&mut out, name, after);
            if self.at.is_some() {
                return Some(out);
            }
        }
        registry.render_refused(&mut out);
        Some(out)
    }
}

impl Registry {
    fn render_refused(&self, out: &mut String) {
        let name = "phalanx_recorder_series_refused";
        let help = "Registrations of series that were not recorded: over the limit, or with the name of another kind.";
        let _ = writeln!(out, "# TYPE {name} counter\n# HELP {name} {help}");
        let _ = writeln!(out, "{name}_total {}", self.rejected);
    }
}

impl Family {
    /// Renders the series after `after`, and the head before the first series. If the piece is full, returns the
    /// position where the next one continues.
    fn render(&self, out: &mut String, name: &str, after: Option<String>) -> Option<Position> {
        let kind = self.series.values().next().map(Series::kind)?;
        if after.is_none() {
            let _ = writeln!(out, "# TYPE {name} {kind}");
            if !self.help.is_empty() {
                let _ = writeln!(out, "# HELP {name} {}", self.help);
            }
        }
        let first = after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        for (labels, series) in self.series.range::<str, _>((first, Bound::Unbounded)) {
            series.render(out, name, labels);
            if out.len() >= PIECE_BYTES {
                return Some(Position { family: name.to_owned(), labels: Some(labels.clone()) });
            }
        }
        None
    }
}

impl Series {
    fn render(&self, out: &mut String, name: &str, labels: &str) {
        let label_set = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
        let _ = match self {
            Self::Counter(count) => {
                writeln!(out, "{name}_total{label_set} {}", count.load(Ordering::Relaxed))
            }
            Self::Gauge(bits) => {
                let value = f64::from_bits(bits.load(Ordering::Relaxed));
                writeln!(out, "{name}{label_set} {value}")
            }
            Self::Histogram(values) => values.render(out, name, labels, &label_set),
        };
    }
}

impl Distribution {
    fn render(
        &self,
        out: &mut String,
        name: &str,
        labels: &str,
        label_set: &str,
    ) -> std::fmt::Result {
        let comma = if labels.is_empty() { "" } else { "," };
        let mut below = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            below += count.load(Ordering::Relaxed);
            let bound = bound(bucket);
            writeln!(out, "{name}_bucket{{{labels}{comma}le=\"{bound:?}\"}} {below}")?;
        }
        // Not less than the sum of the buckets, which other threads may have increased in the meantime.
        let count = self.count.load(Ordering::Relaxed).max(below);
        let sum = f64::from_bits(self.sum.load(Ordering::Relaxed));
        writeln!(out, "{name}_bucket{{{labels}{comma}le=\"+Inf\"}} {count}")?;
        writeln!(out, "{name}_count{label_set} {count}\n{name}_sum{label_set} {sum}")
    }
}

#[cfg(test)]
mod tests {
    use ::metrics::{Key, Label, Level, Metadata, Recorder as _};

    use super::*;

    #[test]
    fn pieces_are_short_and_complete() {
        let recorder = Recorder::new();
        let metadata = Metadata::new("test", Level::INFO, None);
        let register = |name: &'static str, number: usize| {
            let key = Key::from_parts(name, vec![Label::new("client", format!("{number:05}"))]);
            recorder.register_histogram(&key, &metadata).record(number as f64);
        };
        (0..2000).for_each(|number| register(["size", "time"][number % 2], number));
        let mut text = String::new();
        for (n, piece) in recorder.pieces(|_| true).enumerate() {
            assert!(piece.len() < 2 * PIECE_BYTES, "{}", piece.len());
            text += &piece;
            // The series are not locked between two pieces.
            register("aaa", n);
        }
        for family in ["size", "time"] {
            let count = |of: String| text.matches(&of).count();
            assert_eq!(count(format!("# TYPE {family} histogram\n")), 1);
            assert_eq!(count(format!("{family}_count{{")), 1000, "of {family}");
        }
        assert!(!text.contains("aaa"), "behind the family that is being rendered");
        assert!(recorder.render().contains("aaa_count{client=\"00000\"} 1\n"));
    }
}
