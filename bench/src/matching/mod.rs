//! `phalanx bench match`: the matcher, one event at a time and in cohorts.

mod form;
mod measure;
mod misses;
mod options;
mod report;
pub(crate) mod workload;

use std::io;
use std::time::Instant;

use phalanx_matcher::{Index, Tier};

pub use form::Cohort;
pub use options::Options;
pub use report::{Build, MissRow, Report, Row};
use workload::Generator;
pub use workload::Workload;

/// Filters that are made and inserted together: more would only need more memory.
const BATCH: usize = 100_000;

/// Measures, or only matches for a simulator (then there is no report).
///
/// # Errors
/// When a thread cannot be bound to a core, or valgrind cannot be run.
pub fn run(options: &Options) -> io::Result<Option<Report>> {
    if let Some(events) = options.walk {
        misses::walk(options, events);
        return Ok(None);
    }
    let mut report = Report::new(options);
    if options.misses {
        report.misses = misses::run(options)?;
        return Ok(Some(report));
    }
    let mut options = options.clone();
    if options.quick {
        options.subscriptions = vec![2000];
        (options.rounds, options.slice) = (1, 2);
    }
    for workload in &options.workload {
        for subscriptions in &options.subscriptions {
            let mut single = None;
            for multiple in [false, true] {
                let access = if multiple { "chosen" } else { "single" };
                eprintln!("{workload:?}, {subscriptions} filters, access {access}");
                let built = build(*workload, *subscriptions, multiple, options.seed);
                let shape = built.index.shape();
                if multiple && shape.multiple == 0 && single.is_some() {
                    eprintln!("the same as single");
                    continue;
                }
                single = Some(());
                measure::run(&options, *workload, access, built, &mut report)?;
            }
        }
    }
    Ok(Some(report))
}

/// An index and how fast it was filled.
pub(crate) struct Built {
    pub(crate) index: Index,
    insert_all_per_s: f64,
    insert_per_s: f64,
}

/// Fills an index: nearly all in batches, the last part one by one.
pub(crate) fn build(workload: Workload, subscriptions: usize, multiple: bool, seed: u64) -> Built {
    let options =
        phalanx_matcher::Options { multiple, expected: subscriptions, ..Default::default() };
    let mut index = Index::new(options);
    let mut generator = Generator::new(workload, seed);
    let singly = (subscriptions / 10).clamp(1, 50_000);
    let mut seconds = 0.0;
    let mut left = subscriptions - singly;
    while left > 0 {
        let filters: Vec<_> = (0..left.min(BATCH)).map(|_| generator.filter()).collect();
        left -= filters.len();
        let start = Instant::now();
        index.insert_all(&filters);
        seconds += start.elapsed().as_secs_f64();
    }
    let filters: Vec<_> = (0..singly).map(|_| generator.filter()).collect();
    let start = Instant::now();
    for filter in &filters {
        index.insert(filter);
    }
    Built {
        index,
        insert_all_per_s: (subscriptions - singly) as f64 / seconds.max(1e-9),
        insert_per_s: singly as f64 / start.elapsed().as_secs_f64(),
    }
}

/// The instructions that checks are made with.
fn tier() -> String {
    format!("{:?}", Tier::available().last().copied().unwrap_or(Tier::Scalar))
}
