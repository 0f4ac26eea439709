//! The same pipeline under cachegrind: misses of a simulated instruction cache, which are the same
//! on every machine and at any load.

use std::fmt;

use serde::Serialize;

use super::{Error, Options};
use crate::cachegrind;

/// Twice, with so many requests; the difference leaves out all that happens once.
const REQUESTS: [usize; 2] = [256, 768];
const COHORTS: [usize; 2] = [1, 64];

/// Misses of the first-level instruction cache for each request.
#[derive(Clone, Debug, Serialize)]
pub struct MissReport {
    /// By size of stage and of cohort.
    pub rows: Vec<MissRow>,
    /// For each size of stage: misses in cohorts of 64 over those in cohorts of 1.
    pub cohort64_over_1: Vec<f64>,
}

/// One size of stage in one size of cohort.
#[derive(Clone, Debug, Serialize)]
pub struct MissRow {
    /// Of code.
    pub kib_per_stage: u64,
    /// On the runtime.
    pub cohort: usize,
    /// Through all stages.
    pub i1_misses_per_request: f64,
}

pub(super) fn run(options: &Options) -> Result<MissReport, Error> {
    let mut report = MissReport { rows: Vec::new(), cohort64_over_1: Vec::new() };
    for kib in options.kib.iter().copied() {
        for cohort in COHORTS {
            eprintln!("8 x {kib} KiB, cohorts of {cohort}, under valgrind");
            let [few, many] = REQUESTS.map(|requests| {
                cachegrind::run([
                    "bench".to_owned(),
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
        writeln!(f, "simulated misses of the instruction cache (32 KiB, 8 ways) for a request\n")?;
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
