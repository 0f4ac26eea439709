//! Comparison with the crate a-tree, in a separate program (`bench/peers/a-tree`) with the same filters and
//! events.

use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use phalanx_kernels::workload::{Generator, Workload};
use serde::Deserialize;

use super::{Access, Cohort, Row};
use crate::measure::Spread;

/// Number of events, limited by its speed.
const EVENTS: usize = 4096;

/// Its name in rows.
pub(super) const FORM: &str = "a-tree";

/// Output of the program.
#[derive(Deserialize)]
struct Said {
    insert_per_s: f64,
    events_per_s: f64,
    events: usize,
    matches: usize,
    bytes: usize,
}

/// Runs it once, one event at a time.
pub(super) fn run(
    program: &Path,
    workload: Workload,
    subscriptions: usize,
    seed: u64,
) -> io::Result<Row> {
    let named =
        |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", program.display()));
    let mut child = Command::new(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(named)?;
    if let Some(input) = child.stdin.take() {
        // If it stops reading, its output states the cause.
        let _ = tell(BufWriter::new(input), workload, subscriptions, seed);
    }
    let output = child.wait_with_output().map_err(named)?;
    if !output.status.success() {
        return Err(io::Error::other(format!("{} has failed", program.display())));
    }
    let said: Said = serde_json::from_slice(&output.stdout).map_err(io::Error::from)?;
    eprintln!("a-tree inserted {:.0} filters per second", said.insert_per_s);
    Ok(Row {
        workload: format!("{workload:?}"),
        subscriptions,
        access: Access::Peer,
        form: FORM,
        cores: 1,
        cohort: Cohort::Fixed(0),
        rounds: 1,
        events_per_s: said.events_per_s,
        spread: Spread::new(),
        over_per_event: None,
        over_one_core: None,
        matches_per_event: said.matches as f64 / said.events.max(1) as f64,
        bytes_per_subscription: said.bytes as f64 / subscriptions as f64,
    })
}

/// Sends the filters and events that our matcher gets.
fn tell(
    mut input: impl Write,
    workload: Workload,
    subscriptions: usize,
    seed: u64,
) -> io::Result<()> {
    writeln!(input, "{subscriptions} {EVENTS}")?;
    let mut generator = Generator::new(workload, seed);
    for _ in 0..subscriptions {
        let text = generator.text().replace("AND", "and");
        writeln!(input, "{text}")?;
    }
    let mut generator = Generator::new(workload, seed.wrapping_add(1));
    for _ in 0..EVENTS {
        let values = generator.values().map(|value| value.to_string());
        writeln!(input, "{}", values.join(" "))?;
    }
    input.flush()
}
