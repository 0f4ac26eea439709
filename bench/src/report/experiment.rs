//! What an experiment is: a benchmark to run, and how its figures are drawn and judged.
//!
//! The benchmarks themselves know nothing of this: an experiment names a command, and fields of the JSON
//! that the command prints.

use super::table::Table;

/// A benchmark, and what is to be said about it.
pub(super) struct Experiment {
    /// As `--only` names it, and the page's links.
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// What the paper showed, where there is one.
    pub(super) paper: Option<&'static str>,
    /// What is measured.
    pub(super) about: &'static str,
    /// Why it comes out otherwise than in the paper, or than one would think.
    pub(super) differs: &'static str,
    /// Behind `phalanx bench`, for a short report and for a whole one; `--json` is added.
    pub(super) quick: Command,
    pub(super) full: Command,
    /// Programs that it can do without, and how to get them.
    pub(super) peers: &'static [(&'static str, &'static str)],
    /// Ratios, which come first.
    pub(super) ratios: &'static [Ratio],
    pub(super) charts: &'static [Chart],
    pub(super) tables: &'static [Table],
    /// Where a drawing of its own stands, an SVG, as a JSON pointer.
    pub(super) picture: Option<&'static str>,
}

impl Experiment {
    /// For a whole report, or for a short one.
    pub(super) fn command(&self, full: bool) -> &Command {
        if full { &self.full } else { &self.quick }
    }
}

/// What is run, and how long it takes here.
pub(super) struct Command {
    pub(super) arguments: &'static [&'static str],
    /// About so many seconds; it is ended after three times as long.
    pub(super) seconds: u64,
}

/// A figure that is judged by itself.
pub(super) struct Ratio {
    /// Where it stands, as a JSON pointer (RFC 6901).
    pub(super) at: &'static str,
    pub(super) says: &'static str,
    /// What the paper had.
    pub(super) paper: Option<f64>,
    pub(super) goal: Goal,
}

/// What a ratio is to be.
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
    /// Where the rows are, as a JSON pointer.
    pub(super) rows: &'static str,
    /// Only rows whose field is this.
    pub(super) only: &'static [(&'static str, &'static str)],
    pub(super) lines: Lines,
    pub(super) x: Axis,
    pub(super) y: Axis,
}

/// What becomes a line.
pub(super) enum Lines {
    /// Rows with the same values in these fields; `y` names the one that is drawn.
    By { fields: &'static [&'static str], y: &'static str },
    /// Each of these fields: a name, and the field.
    Fields(&'static [(&'static str, &'static str)]),
}

/// One direction of a plot.
pub(super) struct Axis {
    /// The field; empty for `y`, which the lines name.
    pub(super) field: &'static str,
    pub(super) label: &'static str,
    pub(super) logarithmic: bool,
}
