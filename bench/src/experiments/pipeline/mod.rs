//! `phalanx-bench pipeline`: when do cohorts pay?
//!
//! Eight stages of generated, branchy code, of sizes from tiny to larger than the first-level instruction cache,
//! process a stream of requests: run to completion, in cohorts on the runtime, and with a thread per request. All
//! arms run the same code on the same requests. Read `code` (the stages), `arms` (ways to run them), `measure`
//! (one process), `misses` (under cachegrind).

mod arms;
mod calls;
mod code;
mod measure;
mod misses;
mod report;

use std::process::{Command, Stdio};

use clap::Args;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::arguments::{kib, number};
use crate::error::Error;
use crate::measure::stretch;

pub(crate) use arms::{Arm, Line, MAX_WARM_UP_REQUESTS};
pub(crate) use calls::Setting;
pub(crate) use code::{Request, STAGES, stages};
use report::Report;

/// Measure when cohorts pay: eight stages of generated code, run in different orders.
///
/// Every request passes eight stages of branchy machine code. It is run to completion (plain calls of the same
/// code, without a runtime); in cohorts of 1, 4, 16, 64 and 256 on the runtime (one stage each, one operation per
/// request and stage); with a thread per request; and by 128 connections that call and await one stage after
/// another, with a tuned cohort size (the automatic setting), and with all stages direct. The arms take turns in
/// one process, bound to one core; ratios are medians over the rounds, then over the processes.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// KiB of code per stage: 1, 2, 4, 8, 16 or 32; 4 is called tiny, 32 KiB in all
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,4,8,16,32", value_parser = kib())]
    pub(crate) kib: Vec<u64>,

    /// Rounds per process
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = number(1..=1000))]
    pub(crate) rounds: usize,

    /// Requests per round
    #[arg(long, value_name = "N", default_value_t = 2048, value_parser = number(1..=100_000))]
    pub(crate) requests: usize,

    /// Number of measuring processes, one after another; 0 measures in this process
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = number(0..=100))]
    pub(crate) processes: usize,

    /// Count misses of the instruction cache under valgrind instead, for cohorts of 1 and 64: I1 and D1 of 32 KiB
    /// in 8 ways, LL of 1 MiB
    #[arg(long)]
    pub(crate) misses: bool,

    /// One short process: only checks that it runs
    #[arg(long, conflicts_with_all = ["rounds", "requests", "processes"])]
    pub(crate) quick: bool,

    /// Only run requests in cohorts of this size (0: to completion), for a simulator to observe
    #[arg(long, hide = true, value_name = "COHORT")]
    pub(crate) walk: Option<usize>,
}

/// Parameters of a measurement.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) kib: Vec<u64>,
    pub(crate) rounds: usize,
    pub(crate) requests: usize,
    /// Maximum number of requests until the tuner must have found a size.
    pub(crate) settle: usize,
    pub(crate) processes: usize,
}

impl Options {
    pub(crate) fn plan(&self) -> Plan {
        let kib = self.kib.clone();
        match self.quick {
            true => Plan { kib, rounds: 3, requests: 256, settle: 256, processes: 0 },
            false => Plan {
                kib,
                rounds: self.rounds,
                requests: self.requests,
                settle: MAX_WARM_UP_REQUESTS,
                processes: self.processes,
            },
        }
    }
}

impl Plan {
    /// The same parameters as arguments of another process.
    pub(crate) fn arguments(&self) -> [String; 3] {
        let kib: Vec<String> = self.kib.iter().map(u64::to_string).collect();
        [
            format!("--kib={}", kib.join(",")),
            format!("--rounds={}", self.rounds),
            format!("--requests={}", self.requests),
        ]
    }
}

/// Measures in the given number of processes, one after another, or in this one for 0.
pub(crate) fn run(options: &Options) -> Result<Report, Error> {
    if options.misses {
        return misses::run(options);
    }
    let plan = options.plan();
    if plan.processes == 0 {
        return Ok(measure::measure(&plan)?);
    }
    let what = format!(": stages of {:?} KiB", plan.kib);
    let reports = in_processes(plan.processes, "pipeline", &plan.arguments(), &what)?;
    Ok(Report::over(&reports))
}

/// Large, branchy code that evicts everything else from caches and predictors.
pub(crate) struct Scatter(Line);

impl Scatter {
    pub(crate) fn new() -> Self {
        Self(Line::new(Arm::ToCompletion, 32, 32))
    }

    pub(crate) fn run(&mut self) {
        self.0.run();
    }
}

/// Only runs requests, for a simulator to observe: in cohorts, or to completion for 0.
pub(crate) fn walk(cohort: usize, kib: u64, requests: usize) {
    let arm = if cohort == 0 { Arm::ToCompletion } else { Arm::Cohort(cohort) };
    let mut line = Line::timeless(arm, kib, requests);
    line.run();
    std::hint::black_box(line.results());
}

/// Runs `phalanx-bench NAME` with `arguments` in the given number of processes, one after another, and returns
/// their reports. Progress goes to stderr and includes `what`.
pub(crate) fn in_processes<R: DeserializeOwned>(
    processes: usize,
    name: &str,
    arguments: &[String],
    what: &str,
) -> Result<Vec<R>, Error> {
    let report = |process| {
        eprintln!("process {process} of {processes}{what}");
        let mut command = Command::new(crate::system::process::own()?);
        command.args([name, "--json", "--processes=0"]);
        command.args(arguments).stdin(Stdio::null()).stderr(Stdio::inherit());
        let output = command.output()?;
        if !output.status.success() {
            return Err(Error::Process(output.status.to_string()));
        }
        let failed = |error: serde_json::Error| Error::Process(error.to_string());
        let mut report: Value = serde_json::from_slice(&output.stdout).map_err(failed)?;
        if let Some(events) = report.get_mut(stretch::FIELD).map(Value::take) {
            stretch::add_rows(serde_json::from_value(events).map_err(failed)?);
        }
        serde_json::from_value(report).map_err(failed)
    };
    (1..=processes).map(report).collect()
}
