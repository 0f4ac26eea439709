//! The table of `--once` as plain text.

use std::fmt::Write;

use phalanx::metrics::human::{cohorts, count, percent, time};
use phalanx::metrics::{Interval, Snapshot, StageInterval};

use super::placement::placement;
use super::rows::rows;

type Figure = fn(&StageInterval) -> String;

const COLUMNS: &[(&str, Figure)] = &[
    ("queue", |s| count(s.queue_length_mean())),
    ("cohort", |s| count(s.cohort_mean())),
    ("ops/s", |s| count(s.per_second(s.ran))),
    ("busy", |s| percent(s.utilisation())),
    ("wait", |s| time(s.wait_mean_ns())),
    ("wait p99", |s| time(s.waits.percentile_ns(99.0))),
    ("wait max", |s| time(s.wait_max_ns() as f64)),
    ("run", |s| time(s.run_mean_ns())),
    ("run p99", |s| time(s.runs.percentile_ns(99.0))),
    ("run max", |s| time(s.run_max_ns as f64)),
    ("suspended", |s| count(s.suspended_now as f64)),
    ("shed/s", |s| count(s.per_second(s.shed))),
];

/// A line about the program and a line per stage and processor.
pub(super) fn table(
    name: &str,
    snapshot: &Snapshot,
    interval: &Interval,
    is_summed: bool,
) -> String {
    let mut lines = vec![vec!["stage".to_owned(), "processor".to_owned()]];
    lines[0].extend(COLUMNS.iter().map(|(title, _)| (*title).to_owned()));
    for row in rows(interval, is_summed) {
        let processor = row.processor.map_or("all".to_owned(), |index| index.to_string());
        let mut line = vec![row.stage, processor];
        line.extend(COLUMNS.iter().map(|(_, figure)| figure(&row.figures)));
        lines.push(line);
    }
    let total = interval.total();
    let mut out = format!(
        "{name}: up {}, driver {}, {}{}; over {:.2} s {} of {} processors busy\n",
        time(snapshot.uptime_ns as f64),
        snapshot.driver,
        snapshot.phase,
        snapshot.cohort_size_range().map_or(String::new(), |found| format!(", {}", cohorts(found))),
        interval.seconds,
        percent(total.utilisation),
        interval.processors.len(),
    );
    let placement = placement(snapshot);
    if !placement.is_empty() {
        let _ = writeln!(out, "{}", placement.join("  "));
    }
    let length = |text: &String| text.chars().count();
    let widths: Vec<usize> = (0..lines[0].len())
        .map(|column| lines.iter().map(|line| length(&line[column])).max().unwrap_or(0))
        .collect();
    for line in &lines {
        let _ = write!(out, "{:<1$}", line[0], widths[0]);
        for (cell, width) in line.iter().zip(&widths).skip(1) {
            let _ = write!(out, "  {cell:>width$}");
        }
        out.push('\n');
    }
    out
}
