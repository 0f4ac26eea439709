//! The same under cachegrind: misses of a simulated cache, which no neighbour disturbs.

use std::io;
use std::process::{Command, Stdio};

use phalanx_matcher::{Event, Matches};

use super::workload::{Generator, attributes, code};
use super::{MissRow, Options, Workload, build};

/// As in the core that our figures come from.
const CACHES: [&str; 3] = ["--I1=32768,8,64", "--D1=32768,8,64", "--LL=1048576,8,64"];
/// Twice, with so many events; the difference leaves out all that happens once.
const EVENTS: [usize; 2] = [2048, 6144];
const COHORTS: [usize; 2] = [0, 1024];

pub(super) fn run(options: &Options) -> io::Result<Vec<MissRow>> {
    let directory = tempfile::tempdir()?;
    let mut rows = Vec::new();
    for workload in &options.workload {
        for subscriptions in options.subscriptions.iter().copied() {
            for cohort in COHORTS {
                eprintln!("{workload:?}, {subscriptions} filters, cohort {cohort}, under valgrind");
                let mut counts = [0.0; 2];
                for (count, events) in counts.iter_mut().zip(EVENTS) {
                    let mut command = Command::new("valgrind");
                    command.args(["--tool=cachegrind", "--cache-sim=yes"]).args(CACHES);
                    let out = directory.path().join("out");
                    command.arg(format!("--cachegrind-out-file={}", out.display()));
                    command.arg(std::env::current_exe()?).args(["bench", "match"]);
                    command.arg(format!("--workload={workload:?}"));
                    command.arg(format!("--subscriptions={subscriptions}"));
                    command.arg(format!("--cohort={cohort}"));
                    command.arg(format!("--walk={events}"));
                    *count = last_level(command)?;
                }
                let between = (EVENTS[1] - EVENTS[0]) as f64;
                rows.push(MissRow {
                    workload: format!("{workload:?}"),
                    subscriptions,
                    cohort,
                    l2_misses_per_event: (counts[1] - counts[0]) / between,
                });
            }
        }
    }
    Ok(rows)
}

/// The number in cachegrind's line `LL misses:  1,234 (…`.
fn last_level(mut command: Command) -> io::Result<f64> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| {
        io::Error::new(error.kind(), format!("valgrind (apt-get install valgrind): {error}"))
    })?;
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().find(|line| line.contains("LL misses:"));
    let number = line.and_then(|line| line.split(':').nth(1)?.split_whitespace().next());
    let digits = number.map(|number| number.replace(',', ""));
    match digits.and_then(|digits| digits.parse().ok()).filter(|_| output.status.success()) {
        Some(misses) => Ok(misses),
        None => Err(io::Error::other(format!("valgrind said: {}", text.trim()))),
    }
}

/// Matches so many events with one access attribute, in cohorts of the first size.
pub(super) fn walk(options: &Options, events: usize) {
    let workload = options.workload.first().copied().unwrap_or(Workload::W0);
    let subscriptions = options.subscriptions.first().copied().unwrap_or(1);
    let index = build(workload, subscriptions, false, options.seed).index;
    let mut generator = Generator::new(workload, options.seed.wrapping_add(1));
    let known = attributes(&index);
    // Always as many, so that the difference of two runs is matching alone.
    let coded: Vec<Event> =
        (0..EVENTS[1]).map(|_| code(&index, &known, &generator.values())).collect();
    let mut matches = Matches::new();
    let cohort = options.cohort.first().map_or(0, |cohort| cohort.size());
    for events in coded[..events.min(EVENTS[1])].chunks(cohort.max(1)) {
        matches.clear();
        match cohort {
            0 => index.matches(&events[0], &mut matches),
            _ => index.match_cohort(events, &mut matches),
        }
        std::hint::black_box(matches.all());
    }
}
