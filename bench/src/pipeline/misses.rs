//! The pipeline under cachegrind: misses of a simulated instruction cache, independent of machine and load.

use std::fmt;

use serde::Serialize;

use super::Options;
use crate::cachegrind;
use crate::error::Error;

/// Numbers of requests of two runs; their difference excludes one-time costs.
const REQUESTS: [usize; 2] = [256, 768];
const COHORTS: [usize; 2] = [1, 64];

/// Misses of the first-level instruction cache per request.
#[derive(Clone, Debug, Serialize)]
pub struct MissReport {
    /// One per size of stage and cohort.
    pub rows: Vec<MissRow>,
    /// Misses in cohorts of 64 over those in cohorts of 1, per size of stage.
    pub cohort64_over_1: Vec<f64>,
}

/// One size of stage and cohort.
#[derive(Clone, Debug, Serialize)]
pub struct MissRow {
    /// KiB of code per stage.
    pub kib_per_stage: u64,
    /// Cohort size on the runtime.
    pub cohort: usize,
    /// Misses per request through all stages.
    pub i1_misses_per_request: f64,
}

pub(super) fn run(options: &Options) -> Result<MissReport, Error> {
    let mut report = MissReport { rows: Vec::new(), cohort64_over_1: Vec::new() };
    for kib in options.kib.iter().copied() {
        for cohort in COHORTS {
            eprintln!("8 x {kib} KiB, cohorts of {cohort}, under valgrind");
            let [few, many] = REQUESTS.map(|requests| {
                cachegrind::run([
                    "pipeline".to_owned(),
                    format!("--walk={cohort}"),
                    format!("--kib={kib}"),
                    format!("--requests={requests}"),
                ])
            });
            let misses = many?.beyond(few?, REQUESTS[1] - REQUESTS[0]);
            let row = MissRow { kib_per_stage: kib, cohort, i1_misses_per_request: misses.i1 };
            report.rows.push(row);
        }
        let [one, sixty_four] = [2, 1].map(|n| &report.rows[report.rows.len() - n]);
        let ratio = sixty_four.i1_misses_per_request / one.i1_misses_per_request;
        report.cohort64_over_1.push(ratio);
    }
    Ok(report)
}

impl fmt::Display for MissReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "simulated misses of the instruction cache (32 KiB, 8 ways) per request\n")?;
        writeln!(f, "{:>8}{:>12}{:>12}{:>12}", "a stage", "cohort 1", "cohort 64", "ratio")?;
        for (pair, ratio) in self.rows.chunks(2).zip(&self.cohort64_over_1) {
            let [one, sixty_four] = pair else { continue };
            writeln!(
                f,
                "{:>8}{:>12.1}{:>12.1}{:>12}",
                format!("{} KiB", one.kib_per_stage),
                one.i1_misses_per_request,
                sixty_four.i1_misses_per_request,
                format!("1/{:.0}", 1.0 / ratio),
            )?;
        }
        Ok(())
    }
}
