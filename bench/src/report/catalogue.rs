//! The experiments: a benchmark to run, and how its figures are drawn and judged.
//!
//! `catalogue.toml` lists them. Benchmarks do not depend on it: an experiment names a command and fields of its JSON.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;

use serde::Deserialize;

/// A benchmark and its description.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Experiment {
    /// Name for `--only` and the page's links.
    pub(super) name: String,
    pub(super) title: String,
    /// Result of the paper, if there is one.
    pub(super) paper: Option<String>,
    /// Description of the measurement.
    pub(super) about: String,
    /// Reasons for differences from the paper or from expectations.
    pub(super) differs: String,
    /// Commands for a short report and for a full one.
    pub(super) quick: Command,
    pub(super) full: Command,
    /// Programs that it compares with; those that are missing are reported.
    #[serde(default)]
    pub(super) peers: Vec<String>,
    /// Ratios, which are shown first.
    #[serde(default)]
    pub(super) ratios: Vec<Ratio>,
    #[serde(default)]
    pub(super) charts: Vec<Chart>,
    #[serde(default)]
    pub(super) tables: Vec<Table>,
    /// JSON pointer to an SVG in the report.
    pub(super) picture: Option<String>,
}

impl Experiment {
    /// The command for a full or a short report.
    pub(super) fn command(&self, full: bool) -> &Command {
        if full { &self.full } else { &self.quick }
    }
}

/// A command and its duration.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Command {
    /// Arguments of `phalanx-bench`, separated by spaces; `--json` is added.
    pub(super) command: String,
    /// Expected duration in seconds; the time limit is three times as long, and a minute.
    pub(super) seconds: u64,
}

/// A figure that is judged by itself.
#[derive(Debug, Deserialize)]
pub(super) struct Ratio {
    /// Its JSON pointer.
    pub(super) at: String,
    pub(super) says: String,
    /// The paper's value.
    pub(super) paper: Option<f64>,
    #[serde(flatten)]
    pub(super) goal: Goal,
}

/// Goal of a ratio.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
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

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(most) => write!(f, "at most {most}"),
            Self::AtLeast(least) => write!(f, "at least {least}"),
        }
    }
}

/// A plot of rows.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Chart {
    pub(super) title: String,
    /// JSON pointer to the rows.
    pub(super) rows: String,
    /// Draw only rows with these field values.
    #[serde(default)]
    pub(super) only: BTreeMap<String, String>,
    pub(super) lines: Lines,
    pub(super) x: Axis,
    pub(super) y: Axis,
}

/// Source of the lines.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Lines {
    /// One line per combination of values in these fields; `y` is the drawn field.
    By { by: Vec<String>, y: String },
    /// One line per field: a name and the field.
    Fields { fields: Vec<(String, String)> },
}

/// One axis of a plot.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Axis {
    /// The field; empty for `y`, which the lines name.
    #[serde(default)]
    pub(super) field: String,
    pub(super) label: String,
    #[serde(default)]
    pub(super) logarithmic: bool,
}

/// Rows and columns of a table, for figures that plots do not show.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    pub(super) title: String,
    /// JSON pointer to the rows.
    pub(super) rows: String,
    /// Fields and their headings.
    pub(super) columns: Vec<(String, String)>,
}

/// All experiments, in the order of the report.
pub(super) fn all() -> &'static [Experiment] {
    #[derive(Deserialize)]
    struct Catalogue {
        experiments: Vec<Experiment>,
    }
    static ALL: LazyLock<Vec<Experiment>> = LazyLock::new(|| {
        let parsed = toml::from_str::<Catalogue>(include_str!("catalogue.toml"));
        parsed.expect("a valid catalogue").experiments
    });
    &ALL
}

pub(super) fn find(name: &str) -> Option<&'static Experiment> {
    all().iter().find(|experiment| experiment.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_parses() {
        for experiment in all() {
            for command in [&experiment.quick, &experiment.full] {
                let words = command.command.split_whitespace();
                let line = ["phalanx-bench"].into_iter().chain(words).chain(["--json"]);
                let parsed = <crate::cli::Cli as clap::Parser>::try_parse_from(line);
                assert!(parsed.is_ok(), "{}: {}", experiment.name, parsed.err().unwrap());
            }
        }
    }

    #[test]
    fn durations_are_bounded() {
        let time = |of: fn(&Experiment) -> &Command| -> u64 {
            all().iter().map(|experiment| of(experiment).seconds).sum()
        };
        assert!(time(|experiment| &experiment.quick) <= 380);
        assert!(time(|experiment| &experiment.full) <= 95 * 60);
    }

    #[test]
    fn names_differ_and_figures_are_shown() {
        for (n, experiment) in all().iter().enumerate() {
            assert!(all()[..n].iter().all(|other| other.name != experiment.name));
            let Experiment { ratios, charts, tables, .. } = experiment;
            let shown = ratios.len() + charts.len() + tables.len();
            assert!(shown > 0, "{}", experiment.name);
        }
    }
}
