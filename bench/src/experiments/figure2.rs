//! `phalanx-bench figure2`: Figure 2 of the 2002 paper (§2) on this machine.
//!
//! A cohort of k system calls, each a write of 4 KiB at a random position of a file in the page cache, begins
//! with caches and branch predictors full of other data. The first call pays for loading the kernel's code and
//! data; the following calls share that cost. Where the processor has counters, those of the kernel show the misses.

use std::fs::File;
use std::hint::black_box;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Instant;

use crate::arguments::number;
use crate::error::Error;
use crate::experiments::pipeline::Scatter;
use crate::measure::{Machine, Quartiles, Rounds as _, Run, Spread, Taken, median, record, rounds};
use crate::system::{Events, HardwareCounters, Part, cores, install_signal_handlers};
use clap::Args;

const BLOCK: usize = 4096;
/// Calls per cohort.
const COHORTS: [usize; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];
/// Larger than the second-level cache and our share of the third level.
const FLUSH_BYTES: usize = 32 << 20;

/// Measure the 2002 paper's Figure 2: the cost of a write in a cohort of k after flushing the caches.
///
/// Each cohort of k = 1, 2, 4 … 256 writes 4 KiB blocks at random positions of a file in the page cache. Before
/// each, 32 MiB of memory and 256 KiB of branchy code are traversed, which evicts useful data from caches and
/// branch predictors. Sizes take turns; figures are medians over the rounds. In the paper, whose
/// writes were asynchronous, k = 8 cost 0.32 of k = 1, and k = 64 cost 0.18.
///
/// Disturbed rounds are repeated.
///
/// If the machine has hardware counters, they count the misses of a call in the kernel, less those of a cohort without
/// calls.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Folder of the file [default: the directory for temporary files]
    #[arg(long, value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,

    /// Size of the file
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = number(1..=4096))]
    pub(crate) mib: usize,

    /// Measurements per cohort size
    #[arg(long, value_name = "N", default_value_t = 41, value_parser = number(1..=10_000))]
    pub(crate) rounds: usize,

    /// A small file and few rounds: only checks that it runs
    #[arg(long, conflicts_with_all = ["mib", "rounds"])]
    pub(crate) quick: bool,
}

record! {
    /// The report.
    pub(crate) struct Report, fn new(cohorts: Vec<Cohort>, taken: &[Round], file_mib: usize, noisy_rounds: usize) {
        /// One per k.
        cohorts: Vec<Cohort> | "a write of 4 KiB in a cohort of k, caches flushed before (medians)", 0;
        /// Cost of a call in a cohort of 8 over that of a single call.
        k8_over_k1: f64 => "k = 8 over k = 1", 2 = over_one(taken, 8);
        /// Cost of a call in a cohort of 64 over that of a single call.
        k64_over_k1: f64 => "k = 64 over k = 1", 2 = over_one(taken, 64);
        /// Median cost of a call among many, nothing flushed.
        warm_ns: f64 => "ns of a call among many, nothing flushed", 0 = taken.median(|round| round.warm);
        /// Size of the file.
        file_mib: usize;
        /// Quartiles of the two ratios.
        spread: Spread = Quartiles;
        rounds: usize => "rounds", 0 = taken.len();
        /// Rounds among these that were kept although other processes used the machine.
        noisy_rounds: usize => "disturbed rounds", 0;
    }
}

record! {
    /// One k.
    pub(crate) struct Cohort, fn new(k: usize, times: Vec<f64>, over: Vec<f64>, events: Events) {
        /// Consecutive calls.
        k: usize => "k", 0;
        /// Median nanoseconds per call.
        ns_per_call: f64 => "ns per call", 0 = times;
        /// Ratio to k = 1: the median of the rounds' ratios.
        over_k1: f64 => "over k = 1", 2 = over;
        /// Instructions of a call in the kernel, if the processor counts them.
        instructions: Option<f64> => "instructions", 0 = events.instructions;
        /// Misses of the first-level instruction cache.
        l1_instruction_misses: Option<f64> => "L1i misses", 0 = events.l1_instruction_misses;
        /// Read misses of the first-level data cache.
        l1_data_misses: Option<f64> => "L1d misses", 0 = events.l1_data_misses;
        /// Read misses of the last-level cache.
        last_level_misses: Option<f64> => "last-level", 0 = events.last_level_misses;
        spread: Spread = Quartiles;
    }
}

/// A file with random blocks to write to.
struct Target {
    file: File,
    blocks: u64,
    block: Vec<u8>,
    random: fastrand::Rng,
}

impl Target {
    /// Nanoseconds per call in a cohort of `k`.
    fn write(&mut self, k: usize) -> io::Result<f64> {
        let start = Instant::now();
        for _ in 0..k {
            let at = self.random.u64(..self.blocks) * BLOCK as u64;
            self.file.write_all_at(&self.block, at)?;
        }
        Ok(start.elapsed().as_nanos() as f64 / k as f64)
    }
}

/// Evicts useful data from caches and branch predictors.
struct Flush {
    memory: Vec<u64>,
    scatter: Scatter,
}

impl Flush {
    fn run(&mut self) {
        // Write one word per line, so that this core owns the lines.
        for word in self.memory.iter_mut().step_by(8) {
            *word = word.wrapping_add(1);
        }
        black_box(&self.memory);
        self.scatter.run();
    }
}

/// All cohorts once.
struct Round {
    /// Nanoseconds per call of each cohort.
    times: [f64; COHORTS.len()],
    /// The same, nothing flushed.
    warm: f64,
    /// Events in the kernel of each cohort, and of one without calls.
    events: Vec<Events>,
}

pub(crate) fn run(options: &Options) -> Result<Run<Report>, Error> {
    install_signal_handlers()?;
    let (mib, rounds) = if options.quick { (4, 3) } else { (options.mib, options.rounds) };
    let file = match &options.directory {
        Some(directory) => tempfile::tempfile_in(directory)?,
        None => tempfile::tempfile()?,
    };
    let blocks = (mib << 20) / BLOCK;
    let mut target = Target {
        file,
        blocks: blocks as u64,
        block: vec![7; BLOCK],
        random: fastrand::Rng::with_seed(2002),
    };
    eprintln!("{rounds} rounds of writes to a file of {mib} MiB");
    for block in 0..blocks {
        target.file.write_all_at(&target.block, (block * BLOCK) as u64)?;
    }
    // Write back dirty pages now rather than during a measurement.
    target.file.sync_all()?;
    let mut flush = Flush { memory: vec![1; FLUSH_BYTES / 8], scatter: Scatter::new() };
    let core = cores::first()?;
    let mut round = |counters: &mut Option<HardwareCounters>| -> io::Result<Round> {
        // The last one is the cohort without calls.
        let (mut times, mut events) = ([0.0; COHORTS.len()], Vec::new());
        for (n, k) in COHORTS.into_iter().chain([0]).enumerate() {
            // Reading the counters before the flush does not fill the caches. The flush is not in the kernel.
            let before = counters.as_mut().map(HardwareCounters::read).transpose()?;
            flush.run();
            let time = target.write(k)?;
            if let Some(time_of) = times.get_mut(n) {
                *time_of = time;
            }
            let after = counters.as_mut().map(HardwareCounters::read).transpose()?;
            events.extend(after.zip(before).map(|(after, before)| after.since(before)));
        }
        Ok(Round { times, warm: target.write(256)?, events })
    };
    let (taken, hardware_counters) = cores::bound(&core, || {
        let mut counters = HardwareCounters::start_here(Part::Kernel).ok();
        let taken = rounds::take(rounds, || round(&mut counters));
        taken.map(|taken| (taken, counters.is_some()))
    })??;
    let partial = taken.partial(rounds);
    let Taken { rounds: taken, noisy } = taken;
    let events = |n: usize| {
        let each: Vec<Events> =
            taken.iter().filter_map(|round| round.events.get(n).copied()).collect();
        Events::combine(&each, median)
    };
    let nothing = events(COHORTS.len());
    let cohort = |(n, k): (usize, &usize)| {
        let events = events(n).since(nothing).divided_by(*k as f64);
        Cohort::new(*k, taken.each(|round| round.times[n]), over_one(&taken, *k), events)
    };
    let cohorts = COHORTS.iter().enumerate().map(cohort).collect();
    let report = Report::new(cohorts, &taken, mib, noisy);
    let machine = Machine { hardware_counters, ..Machine::on_core(&core) };
    Ok(Run::new(report, machine, partial, options.quick))
}

/// The cost of a call in a cohort of `k` over that of a single call, in each round.
fn over_one(taken: &[Round], k: usize) -> Vec<f64> {
    let n = COHORTS.iter().position(|other| *other == k).expect("a measured size");
    taken.each(|round| round.times[n] / round.times[0])
}
