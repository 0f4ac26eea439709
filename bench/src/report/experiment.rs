//! Experiments: a benchmark to run, and how its figures are drawn and judged.
//!
//! Benchmarks do not depend on this module: an experiment names a command and fields of its JSON output.

use super::table::Table;

/// A benchmark and its description.
pub(super) struct Experiment {
    /// Name for `--only` and the page's links.
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// Result of the paper, if there is one.
    pub(super) paper: Option<&'static str>,
    /// Description of the measurement.
    pub(super) about: &'static str,
    /// Reasons for differences from the paper or from expectations.
    pub(super) differs: &'static str,
    /// Arguments of `phalanx-bench` for a short report and for a full one; `--json` is added.
    pub(super) quick: Command,
    pub(super) full: Command,
    /// Optional programs, and how to install them.
    pub(super) peers: &'static [(&'static str, &'static str)],
    /// Ratios, which are shown first.
    pub(super) ratios: &'static [Ratio],
    pub(super) charts: &'static [Chart],
    pub(super) tables: &'static [Table],
    /// JSON pointer to an SVG in the report.
    pub(super) picture: Option<&'static str>,
}

impl Experiment {
    /// The command for a full or a short report.
    pub(super) fn command(&self, full: bool) -> &Command {
        if full { &self.full } else { &self.quick }
    }
}

/// A command and its duration.
pub(super) struct Command {
    pub(super) arguments: &'static [&'static str],
    /// Expected duration in seconds; the time limit is three times as long.
    pub(super) seconds: u64,
}

/// A figure that is judged by itself.
pub(super) struct Ratio {
    /// Its JSON pointer (RFC 6901).
    pub(super) at: &'static str,
    pub(super) says: &'static str,
    /// The paper's value.
    pub(super) paper: Option<f64>,
    pub(super) goal: Goal,
}

/// Goal of a ratio.
#[derive(Clone, Copy)]
pub(super) enum Goal {
    AtMost(f64),
    AtLeast(f64),
}

impl Goal {
    pub(super) fn met(self, value: f64) -> bool {
        match self {
            Self::AtMost(most) => value <= most,
            Self::AtLeast(least) => value >= least,
        }
    }
}

impl std::fmt::Display for Goal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::AtMost(most) => write!(f, "at most {most}"),
            Self::AtLeast(least) => write!(f, "at least {least}"),
        }
    }
}

/// A plot of rows.
pub(super) struct Chart {
    pub(super) title: &'static str,
    /// JSON pointer to the rows.
    pub(super) rows: &'static str,
    /// Draw only rows with these field values.
    pub(super) only: &'static [(&'static str, &'static str)],
    pub(super) lines: Lines,
    pub(super) x: Axis,
    pub(super) y: Axis,
}

/// Source of the lines.
pub(super) enum Lines {
    /// One line per combination of values in these fields; `y` is the drawn field.
    By { fields: &'static [&'static str], y: &'static str },
    /// One line per field: a name and the field.
    Fields(&'static [(&'static str, &'static str)]),
}

/// One axis of a plot.
pub(super) struct Axis {
    /// The field; empty for `y`, which the lines name.
    pub(super) field: &'static str,
    pub(super) label: &'static str,
    pub(super) logarithmic: bool,
}
