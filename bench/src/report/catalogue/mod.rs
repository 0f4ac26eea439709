//! All experiments, in the order of the report.

mod cohorts;
mod costs;
mod matcher;
mod scale;
mod servers;
mod tux;

use super::experiment::{Axis, Command, Experiment};

/// The experiments of the papers, then the others.
pub(super) fn all() -> Vec<&'static Experiment> {
    [
        &cohorts::FIGURE2,
        &servers::FIGURE4,
        &servers::FIGURE6,
        &servers::FIGURE7,
        &cohorts::MISSES,
        &tux::CONCURRENCY,
        &tux::FAILURE,
        &cohorts::PIPELINE,
        &matcher::FIGURE8,
        &matcher::MATCH,
        &matcher::INDEX,
        &costs::OPERATIONS,
        &costs::RUNTIMES,
        &cohorts::LADDER,
        &servers::WEB,
        &servers::LIGHT,
        &servers::OVERLOAD,
        &servers::DIAL,
        &servers::BROKER,
        &scale::SCALE,
        &cohorts::INTERLEAVE,
    ]
    .to_vec()
}

/// The experiment of this name.
pub(super) fn find(name: &str) -> Option<&'static Experiment> {
    all().into_iter().find(|experiment| experiment.name == name)
}

const fn linear(field: &'static str, label: &'static str) -> Axis {
    Axis { field, label, logarithmic: false }
}

const fn logarithmic(field: &'static str, label: &'static str) -> Axis {
    Axis { field, label, logarithmic: true }
}

const fn command(seconds: u64, arguments: &'static [&'static str]) -> Command {
    Command { arguments, seconds }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_parses() {
        for experiment in all() {
            for command in [&experiment.quick, &experiment.full] {
                let line = ["phalanx-bench"].iter().chain(command.arguments).chain(&["--json"]);
                let parsed = <crate::cli::Cli as clap::Parser>::try_parse_from(line);
                assert!(parsed.is_ok(), "{}: {}", experiment.name, parsed.err().unwrap());
            }
        }
    }

    #[test]
    fn durations_are_bounded() {
        let all = all();
        let time = |of: fn(&Experiment) -> &Command| -> u64 {
            all.iter().map(|experiment| of(experiment).seconds).sum()
        };
        assert!(time(|experiment| &experiment.quick) <= 330);
        assert!(time(|experiment| &experiment.full) <= 70 * 60);
        for (n, experiment) in all.iter().enumerate() {
            assert!(all[..n].iter().all(|other| other.name != experiment.name));
            let shows = [
                !experiment.ratios.is_empty(),
                !experiment.charts.is_empty(),
                !experiment.tables.is_empty(),
            ];
            assert!(shows.contains(&true), "{}", experiment.name);
        }
    }
}
