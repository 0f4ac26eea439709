//! The stored figures and the tolerance of each.

use std::fmt::Write;

/// A figure: its name, as `dispatch.instructions`, and its value.
pub(super) type Figure = (String, f64);

/// Start of the file's first line, which names the tools that produced the figures.
const MADE_BY: &str = "# Made by ";

/// Result of comparing a figure with its baseline.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Verdict {
    Same,
    Better,
    Worse,
    /// Not in the baseline.
    New,
}

/// Figures in the order of the file.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Baseline {
    /// Versions of the compiler and of valgrind, and the architecture.
    pub(super) made_by: String,
    pub(super) figures: Vec<Figure>,
}

impl Baseline {
    /// Parses the file: a line per figure with its name and value; `#` begins a comment.
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
                return Err(format!("line {}: expected a name and a number", n + 1));
            };
            baseline.figures.push((name.to_owned(), value));
        }
        Ok(baseline)
    }

    /// The text of the file.
    pub(super) fn write(&self) -> String {
        let mut out = format!("{MADE_BY}{}\n", self.made_by);
        out.push_str(
            "# Cost per item, counted rather than timed. Written by `cargo xtask gates --update`;\n\
             # docs/gates.md describes the counts and their tolerances.\n",
        );
        let mut before = "";
        for (name, value) in &self.figures {
            let group = workload(name);
            if group != before {
                out.push('\n');
                before = group;
            }
            let _ = writeln!(out, "{name:<32} {:>12}", format_value(*value));
        }
        out
    }

    pub(super) fn value(&self, name: &str) -> Option<f64> {
        self.figures.iter().find(|(other, _)| other == name).map(|(_, value)| *value)
    }

    /// The figures of workloads that are not among `workloads`.
    pub(super) fn stale_figures(&self, workloads: &[&str]) -> Vec<String> {
        let names = self.figures.iter().map(|(name, _)| name);
        names.filter(|name| !workloads.contains(&workload(name))).cloned().collect()
    }

    /// Compares a figure with its baseline.
    pub(super) fn compare(&self, (name, now): &Figure) -> Verdict {
        let Some(before) = self.value(name) else { return Verdict::New };
        let (share, min) = tolerance(name);
        let tolerated = (before * share).max(min);
        match now - before {
            increase if increase > tolerated => Verdict::Worse,
            change if change < -tolerated => Verdict::Better,
            _ => Verdict::Same,
        }
    }
}

/// The workload of a figure.
fn workload(figure: &str) -> &str {
    figure.split('.').next().unwrap_or_default()
}

/// Tolerance of a figure: the share of its baseline and the absolute amount by which it may move.
///
/// The instructions of one thread are the same in each run, those of a server nearly so. Misses change with the
/// layout of the code. One allocation more is reported. Conflicts among a server's few dozen data lines depend on
/// where its memory is mapped: one program had 35, 53 and 64 misses in three runs.
fn tolerance(name: &str) -> (f64, f64) {
    match (name.starts_with("web"), name.rsplit('.').next().unwrap_or_default()) {
        (true, "instructions") => (0.03, 0.0),
        (false, "instructions") => (0.02, 0.0),
        // Includes the periodic work of the server.
        (true, "allocations") => (0.0, 0.3),
        (_, "allocations" | "system_calls") => (0.0, 0.05),
        (true, "d1_misses") => (1.0, 50.0),
        (true, _) => (0.3, 5.0),
        (false, _) => (0.1, 1.0),
    }
}

/// A value as written to the file, rounded so that insignificant changes do not appear.
pub(super) fn format_value(value: f64) -> String {
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
    fn the_file_round_trips() {
        let text = baseline().write();
        assert_eq!(Baseline::read(&text).unwrap(), baseline());
        assert!(Baseline::read("\n\ncall.instructions many\n").unwrap_err().contains("line 3"));
    }

    #[test]
    fn figures_of_removed_workloads_are_stale() {
        assert_eq!(baseline().stale_figures(&["call", "web"]), Vec::<String>::new());
        assert_eq!(baseline().stale_figures(&["call"]), ["web.i1_misses"]);
        let text = include_str!("../../gates.txt");
        let workloads: Vec<_> = super::super::count::names().collect();
        assert_eq!(Baseline::read(text).unwrap().stale_figures(&workloads), Vec::<String>::new());
    }

    #[test]
    fn changes_beyond_the_tolerance_are_worse() {
        let compare = |name: &str, value| baseline().compare(&(name.to_owned(), value));
        assert_eq!(compare("call.instructions", 203.9), Verdict::Same);
        assert_eq!(compare("call.instructions", 204.1), Verdict::Worse);
        assert_eq!(compare("call.instructions", 195.0), Verdict::Better);
        assert_eq!(compare("call.allocations", 0.1), Verdict::Worse);
        assert_eq!(compare("web.i1_misses", 9.4), Verdict::Same);
        assert_eq!(compare("join.instructions", 1.0), Verdict::New);
    }
}
