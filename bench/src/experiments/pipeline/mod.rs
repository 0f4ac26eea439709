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
mod options;
mod processes;
mod report;

use crate::error::Error;

pub(crate) use options::Options;
use report::Report;

pub(crate) use arms::{Arm, Line, MAX_WARM_UP_REQUESTS};
pub(crate) use calls::Setting;
pub(crate) use code::{Request, STAGES, stages};
pub(crate) use processes::in_processes;

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
