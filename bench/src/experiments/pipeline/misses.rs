//! The pipeline under cachegrind: misses of a simulated instruction cache, independent of machine and load.

use super::{Options, Report};
use crate::error::Error;
use crate::measure::record;
use crate::system::cachegrind;

/// Numbers of requests of two runs; their difference excludes one-time costs.
const REQUESTS: [usize; 2] = [256, 768];
const COHORTS: [usize; 2] = [1, 64];

record! {
    /// One size of stage and cohort.
    #[derive(serde::Deserialize)]
    pub(crate) struct MissRow {
        /// KiB of code per stage.
        kib_per_stage: u64 => "KiB a stage", 0;
        /// Cohort size on the runtime.
        cohort: usize => "cohort", 0;
        /// Misses per request through all stages.
        i1_misses_per_request: f64 => "misses", 1;
    }
}

/// A report with misses only.
pub(super) fn run(options: &Options) -> Result<Report, Error> {
    let mut report = Report::new(Vec::new(), &options.plan());
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
