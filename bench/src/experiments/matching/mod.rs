//! `phalanx-bench match`: the matcher, one event at a time and in cohorts.

mod form;
mod measure;
mod misses;
mod peer;
mod report;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum};
use phalanx_kernels::workload::{Generator, Workload};
use phalanx_matcher::{Filter, Index, Tier};
use serde::Serialize;

use crate::arguments::number;
use crate::error::Error;
use crate::measure::thread_time;
use crate::system::{install_signal_handlers, interrupted};

use form::Cohort;
use report::{Build, MissRow, Report, Row};

/// Choice of access predicates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Access {
    /// One attribute per filter
    Single,
    /// By cost, several attributes at once; left out where the result is the same
    Chosen,
    /// By cost, with filters inserted one by one and an index that reorganizes itself as it grows
    Grown,
    /// The peer's own choice
    #[value(skip)]
    Peer,
}

/// Measure the matcher: events per second against many filters, one at a time and in cohorts.
///
/// Filters and events are generated from a seed; an event has 32 attributes. It is coded beforehand, and the
/// time for that is reported separately (`coding_ns`). Each index is measured with all cohort sizes in turn, on
/// one core; figures are medians of the rounds. Cohort 0 is a plain loop over events, with which every other
/// size is compared. `form` is the distribution of the work: `loop` on each core with separate events,
/// `partition` with the pieces of the index divided among the cores, `twin` by a pool of threads that take one
/// event at a time (a counterpart of the threaded server of the 2002 paper, §5.2).
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Numbers of filters
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "100000,1000000",
          value_parser = number(1..=100_000_000))]
    pub(crate) subscriptions: Vec<usize>,

    /// Workloads of the filters
    #[arg(
        long,
        value_name = "W,…",
        value_delimiter = ',',
        ignore_case = true,
        default_value = "W0,W1,W2,W3,W4,W5"
    )]
    pub(crate) workload: Vec<Workload>,

    /// Events matched together; 0 is one at a time without a queue, auto is chosen by the queues at the pieces
    #[arg(
        long,
        value_name = "N,…",
        value_delimiter = ',',
        default_value = "0,1,4,10,20,64,256,1024,4096,auto"
    )]
    pub(crate) cohort: Vec<Cohort>,

    /// Numbers of cores that match concurrently
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1", value_parser = number(1..=64))]
    pub(crate) cores: Vec<usize>,

    /// Rounds per cohort size
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = number(1..=1000))]
    pub(crate) rounds: usize,

    /// Length of a measurement, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 60,
          value_parser = RangedU64ValueParser::<u64>::new().range(1..=10_000))]
    pub(crate) slice: u64,

    /// Seed of filters and events
    #[arg(long, value_name = "N", default_value_t = 42)]
    pub(crate) seed: u64,

    /// Count misses of a second-level cache of 1 MiB under valgrind instead, one event at a time and in cohorts
    /// of 1024, with one access attribute. Takes minutes
    #[arg(long)]
    pub(crate) misses: bool,

    /// Choice of access predicates
    #[arg(
        long,
        value_name = "HOW,…",
        value_delimiter = ',',
        value_enum,
        default_value = "single,chosen"
    )]
    pub(crate) access: Vec<Access>,

    /// Compare with the crate a-tree, one event at a time: the program built by `cargo build --release` in
    /// bench/peers/a-tree. Its insertions slow down with their number; 100,000 take some ten seconds
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) a_tree: Option<PathBuf>,

    /// Few filters and one round: only checks that it runs
    #[arg(long, conflicts_with_all = ["subscriptions", "rounds", "slice"])]
    pub(crate) quick: bool,

    /// Only match this many events in cohorts of the first size, for a simulator to observe
    #[arg(long, hide = true, value_name = "EVENTS")]
    pub(crate) walk: Option<usize>,
}

/// Filters generated and inserted together, which bounds memory.
const BATCH: usize = 100_000;

/// Measures, or only matches for a simulator, without a report.
pub(crate) fn run(options: &Options) -> Result<Option<Report>, Error> {
    if let Some(events) = options.walk {
        misses::walk(options, events);
        return Ok(None);
    }
    let mut report = Report::new(options);
    if options.misses {
        install_signal_handlers()?;
        (report.misses, report.interrupted) = misses::run(options)?;
        return Ok(Some(report));
    }
    let mut options = options.clone();
    if options.quick {
        options.subscriptions = vec![2000];
        (options.rounds, options.slice) = (1, 2);
    }
    install_signal_handlers()?;
    match measure_all(&options, &mut report) {
        Err(Error::Interrupted) if !report.rows.is_empty() => report.interrupted = true,
        measured => measured?,
    }
    let measured = report.rows.iter().filter(|row| row.form != peer::FORM).map(|row| row.rounds);
    report.rounds = measured.min().unwrap_or(options.rounds);
    Ok(Some(report))
}

/// Measures each workload with each number of filters.
fn measure_all(options: &Options, report: &mut Report) -> Result<(), Error> {
    for workload in &options.workload {
        for subscriptions in &options.subscriptions {
            let mut others = false;
            for access in &options.access {
                interrupted()?;
                eprintln!("{workload:?}, {subscriptions} filters, {access:?}");
                let built = match access {
                    Access::Grown => grow(*workload, *subscriptions, options.seed),
                    Access::Chosen => build(*workload, *subscriptions, true, options.seed),
                    Access::Single | Access::Peer => {
                        build(*workload, *subscriptions, false, options.seed)
                    }
                };
                if *access == Access::Chosen && others && built.index.shape().multiple == 0 {
                    eprintln!("identical to single");
                    continue;
                }
                others = true;
                measure::run(options, *workload, *access, built, report)?;
            }
            if let Some(program) = &options.a_tree {
                eprintln!("{workload:?}, {subscriptions} filters, a-tree");
                let row = peer::run(program, *workload, *subscriptions, options.seed)?;
                report.rows.push(row);
            }
        }
    }
    Ok(())
}

/// An index and the speed of filling it.
pub(crate) struct Built {
    pub(crate) index: Index,
    insert_all_per_s: Option<f64>,
    insert_per_s: f64,
    longest: Duration,
}

/// Fills an index: nearly all filters in batches, the last ones one by one.
pub(crate) fn build(workload: Workload, subscriptions: usize, multiple: bool, seed: u64) -> Built {
    fill(filters(workload, seed), subscriptions, multiple)
}

/// Fills an index for each of `parts` processors, with every `parts`-th filter of the same ones.
pub(crate) fn divide(
    workload: Workload,
    subscriptions: usize,
    multiple: bool,
    seed: u64,
    parts: usize,
) -> Vec<Index> {
    let part = |part: usize| {
        let filters = filters(workload, seed).skip(part).step_by(parts);
        fill(filters, (subscriptions - part).div_ceil(parts), multiple).index
    };
    (0..parts).map(part).collect()
}

fn filters(workload: Workload, seed: u64) -> impl Iterator<Item = Filter> {
    let mut generator = Generator::new(workload, seed);
    std::iter::repeat_with(move || generator.filter())
}

fn fill(mut filters: impl Iterator<Item = Filter>, subscriptions: usize, multiple: bool) -> Built {
    let options =
        phalanx_matcher::Options { multiple, expected: subscriptions, ..Default::default() };
    let mut index = Index::new(options);
    let singly = (subscriptions / 10).clamp(1, 50_000);
    let mut seconds = 0.0;
    let mut left = subscriptions - singly;
    while left > 0 {
        let batch: Vec<_> = filters.by_ref().take(left.min(BATCH)).collect();
        left -= batch.len();
        let start = Instant::now();
        index.insert_all(&batch);
        seconds += start.elapsed().as_secs_f64();
    }
    let filters: Vec<_> = filters.take(singly).collect();
    let mut longest = Duration::ZERO;
    let start = Instant::now();
    let mut last = thread_time();
    for filter in &filters {
        index.insert(filter);
        let now = thread_time();
        longest = longest.max(now - last);
        last = now;
    }
    Built {
        index,
        insert_all_per_s: Some((subscriptions - singly) as f64 / seconds.max(1e-9)),
        insert_per_s: singly as f64 / start.elapsed().as_secs_f64(),
        longest,
    }
}

/// Filters that the index reorganizes per change, as in the broker.
const PER_CHANGE: usize = 8;

/// Fills an index one by one without announcing the total; it reorganizes itself as it grows.
fn grow(workload: Workload, subscriptions: usize, seed: u64) -> Built {
    let mut index = Index::new(phalanx_matcher::Options::default());
    let mut generator = Generator::new(workload, seed);
    let (mut longest, mut all, mut left) = (Duration::ZERO, Duration::ZERO, subscriptions);
    while left > 0 {
        let filters: Vec<_> = (0..left.min(BATCH)).map(|_| generator.filter()).collect();
        left -= filters.len();
        let start = Instant::now();
        let mut last = thread_time();
        for filter in &filters {
            index.insert(filter);
            index.adapt_some(PER_CHANGE);
            let now = thread_time();
            longest = longest.max(now - last);
            last = now;
        }
        all += start.elapsed();
    }
    let insert_per_s = subscriptions as f64 / all.as_secs_f64();
    Built { index, insert_all_per_s: None, insert_per_s, longest }
}

/// The instruction set used for checks.
fn tier() -> String {
    format!("{:?}", Tier::available().last().copied().unwrap_or(Tier::Scalar))
}
