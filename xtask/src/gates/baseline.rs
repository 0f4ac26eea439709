//! The figures that are checked in, and how far each may move.

use std::fmt::Write;

/// A figure: `dispatch.instructions`, and what it came to.
pub(super) type Figure = (String, f64);

/// The file's first line holds what made it.
const MADE_BY: &str = "# Made by ";

/// How a figure stands to its baseline.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Verdict {
    Same,
    Better,
    Worse,
    /// Not in the baseline.
    New,
}

/// Figures, in the order of the file.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Baseline {
    /// Compiler, valgrind and architecture.
    pub(super) made_by: String,
    pub(super) figures: Vec<Figure>,
}

impl Baseline {
    /// Reads the file: a line for each figure, its name and its value; `#` begins a comment.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let mut baseline = Self::default();
        for (n, line) in text.lines().enumerate() {
            if let Some(by) = line.strip_prefix(MADE_BY) {
                by.clone_into(&mut baseline.made_by);
            }
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let mut words = line.split_whitespace();
            let figure = words.next().zip(words.next().and_then(|word| word.parse().ok()));
            let Some((name, value)) = figure else {
                return Err(format!("line {}: a name and a number is wanted", n + 1));
            };
            baseline.figures.push((name.to_owned(), value));
        }
        Ok(baseline)
    }

    /// The file.
    pub(super) fn write(&self) -> String {
        let mut out = format!("{MADE_BY}{}\n", self.made_by);
        out.push_str(
            "# What one of each costs, counted and not timed. Written by `cargo xtask gates --update`;\n\
             # docs/gates.md says what is counted and how far a figure may move.\n",
        );
        let mut before = "";
        for (name, value) in &self.figures {
            let group = name.split('.').next().unwrap_or_default();
            if group != before {
                out.push('\n');
                before = group;
            }
            let _ = writeln!(out, "{name:<32} {:>12}", shown(*value));
        }
        out
    }

    pub(super) fn value(&self, name: &str) -> Option<f64> {
        self.figures.iter().find(|(other, _)| other == name).map(|(_, value)| *value)
    }

    /// How a figure stands to that of its name here.
    pub(super) fn judge(&self, (name, now): &Figure) -> Verdict {
        let Some(before) = self.value(name) else { return Verdict::New };
        let (share, least) = tolerance(name);
        let room = (before * share).max(least);
        match now - before {
            more if more > room => Verdict::Worse,
            less if less < -room => Verdict::Better,
            _ => Verdict::Same,
        }
    }
}

/// By which share of its baseline a figure may move, and by how much at least.
///
/// Instructions of one thread are the same in each run, those of a server nearly so. Code that is laid out
/// otherwise misses otherwise. An allocation more is one too many. Which of a server's few dozen data lines meet in
/// a set depends on where its memory lies: one program had 35, 53 and 64 misses of them in as many runs.
fn tolerance(name: &str) -> (f64, f64) {
    match (name.starts_with("web"), name.rsplit('.').next().unwrap_or_default()) {
        (true, "instructions") => (0.03, 0.0),
        (false, "instructions") => (0.02, 0.0),
        // What a server does now and then, beside its requests, is in it.
        (true, "allocations") => (0.0, 0.3),
        (_, "allocations" | "system_calls") => (0.0, 0.05),
        (true, "d1_misses") => (1.0, 50.0),
        (true, _) => (0.3, 5.0),
        (false, _) => (0.1, 1.0),
    }
}

/// A value as it stands in the file: what changes in the last digits is no difference to look at.
pub(super) fn shown(value: f64) -> String {
    let value = if value.abs() < 0.0005 { 0.0 } else { value };
    match value {
        large if large >= 1000.0 => format!("{large:.0}"),
        large if large >= 100.0 => format!("{large:.1}"),
        small => format!("{small:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{Baseline, Verdict};

    fn baseline() -> Baseline {
        let figures =
            [("call.instructions", 200.0), ("call.allocations", 0.0), ("web.i1_misses", 4.5)];
        let figures = figures.map(|(name, value)| (name.to_owned(), value)).to_vec();
        Baseline { made_by: "rustc 1".into(), figures }
    }

    #[test]
    fn what_is_written_is_read() {
        let text = baseline().write();
        assert_eq!(Baseline::read(&text).unwrap(), baseline());
        assert!(Baseline::read("\n\ncall.instructions many\n").unwrap_err().contains("line 3"));
    }

    #[test]
    fn what_moves_too_far_is_worse() {
        let judge = |name: &str, value| baseline().judge(&(name.to_owned(), value));
        assert_eq!(judge("call.instructions", 203.9), Verdict::Same);
        assert_eq!(judge("call.instructions", 204.1), Verdict::Worse);
        assert_eq!(judge("call.instructions", 195.0), Verdict::Better);
        assert_eq!(judge("call.allocations", 0.1), Verdict::Worse);
        assert_eq!(judge("web.i1_misses", 9.4), Verdict::Same);
        assert_eq!(judge("join.instructions", 1.0), Verdict::New);
    }
}
