//! The report of `phalanx-bench pipeline`.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::stats::{Spread, median, minimum, spread};

/// The report. Times are in nanoseconds per request through all stages, minima; ratios are medians of the rounds'
/// pairs, and of the processes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// One per size of the stages.
    pub sizes: Vec<Size>,
    /// Number of stages.
    pub stages: usize,
    /// Requests per round.
    pub requests: usize,
    /// Rounds per process.
    pub rounds: usize,
    /// Number of measuring processes.
    pub processes: usize,
}

/// All arms with stages of one size.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Size {
    /// Nominal size of a stage's code.
    pub kib_per_stage: u64,
    /// Actual size of a stage's code, from the addresses of its parts.
    pub stage_bytes: u64,
    /// One request after another through all stages, plain calls.
    pub run_to_completion_ns: f64,
    /// Cohorts on the runtime.
    pub cohorts: Vec<Cohort>,
    /// A thread per request.
    pub thread_per_request_ns: f64,
    /// Run to completion over cohorts of 64; above 1, cohorts are faster.
    pub rtc_over_cohort64: f64,
    /// The same per process.
    pub rtc_over_cohort64_by_process: Vec<f64>,
    /// On the runtime with awaited calls, in the automatic setting.
    pub auto_ns: f64,
    /// The cohort size that the tuner found there; at 1 calls run inline. Zero if it tried none, since queueing
    /// delays were too long.
    pub auto_found: u64,
    /// Run to completion over the automatic setting; above 1, the automatic setting is faster.
    pub rtc_over_auto: f64,
    /// The same per process.
    pub rtc_over_auto_by_process: Vec<f64>,
    /// The same calls to stages declared direct: the minimum cost of the runtime.
    pub direct_ns: f64,
    /// Run to completion over direct calls; below 1 by that cost.
    pub rtc_over_direct: f64,
    /// Quartiles of the ratios: of the rounds in one process, or of the processes.
    pub spread: Spread,
    /// Rounds kept although other processes used the machine, in all processes.
    pub noisy_rounds: usize,
}

/// One cohort size.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Cohort {
    /// Maximum number of operations.
    pub cohort: usize,
    /// Nanoseconds per request.
    pub ns: f64,
    /// Run to completion over this size; above 1, cohorts are faster.
    pub rtc_over_cohort: f64,
}

impl Report {
    /// Combines the reports of several processes that measured the same.
    pub(crate) fn over(reports: &[Report]) -> Report {
        let mut report = reports[0].clone();
        report.processes = reports.len();
        for (n, size) in report.sizes.iter_mut().enumerate() {
            let each = |f: &dyn Fn(&Size) -> f64| -> Vec<f64> {
                reports.iter().map(|report| f(&report.sizes[n])).collect()
            };
            size.run_to_completion_ns = minimum(&each(&|size| size.run_to_completion_ns));
            size.thread_per_request_ns = minimum(&each(&|size| size.thread_per_request_ns));
            size.rtc_over_cohort64_by_process = each(&|size| size.rtc_over_cohort64);
            size.rtc_over_cohort64 = median(&size.rtc_over_cohort64_by_process);
            size.rtc_over_auto_by_process = each(&|size| size.rtc_over_auto);
            size.rtc_over_auto = median(&size.rtc_over_auto_by_process);
            size.auto_ns = minimum(&each(&|size| size.auto_ns));
            size.auto_found = median(&each(&|size| size.auto_found as f64)) as u64;
            size.direct_ns = minimum(&each(&|size| size.direct_ns));
            let direct = each(&|size| size.rtc_over_direct);
            size.rtc_over_direct = median(&direct);
            size.noisy_rounds = reports.iter().map(|report| report.sizes[n].noisy_rounds).sum();
            if reports.len() > 1 {
                size.spread = spread([
                    ("rtc_over_cohort64", size.rtc_over_cohort64_by_process.clone()),
                    ("rtc_over_auto", size.rtc_over_auto_by_process.clone()),
                    ("rtc_over_direct", direct),
                ]);
            }
            for (c, cohort) in size.cohorts.iter_mut().enumerate() {
                cohort.ns = minimum(&each(&|size| size.cohorts[c].ns));
                cohort.rtc_over_cohort = median(&each(&|size| size.cohorts[c].rtc_over_cohort));
            }
        }
        report
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { stages, rounds, processes, .. } = self;
        writeln!(f, "ns per request through {stages} stages, and speed relative to run to")?;
        writeln!(f, "completion ({processes} x {rounds} rounds)\n")?;
        write!(f, "{:>8}{:>12}", "a stage", "completion")?;
        for cohort in self.sizes.iter().take(1).flat_map(|size| &size.cohorts) {
            write!(f, "{:>14}", format!("cohort {}", cohort.cohort))?;
        }
        writeln!(f, "{:>14}{:>14}{:>12}", "auto", "direct", "thread")?;
        for size in &self.sizes {
            let Size { kib_per_stage, run_to_completion_ns, .. } = size;
            write!(f, "{:>8}{run_to_completion_ns:>12.0}", format!("{kib_per_stage} KiB"))?;
            for cohort in &size.cohorts {
                let cell = format!("{:.0} {:.2}x", cohort.ns, cohort.rtc_over_cohort);
                write!(f, "{cell:>14}")?;
            }
            let default = format!("{:.0} {:.2}x", size.auto_ns, size.rtc_over_auto);
            let direct = format!("{:.0} {:.2}x", size.direct_ns, size.rtc_over_direct);
            writeln!(f, "{default:>14}{direct:>14}{:>12.0}", size.thread_per_request_ns)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_combined_by_minima_and_medians() {
        let report = |ns: f64, ratio: f64| Report {
            sizes: vec![Size {
                kib_per_stage: 4,
                stage_bytes: 4000,
                run_to_completion_ns: ns,
                cohorts: vec![Cohort { cohort: 64, ns, rtc_over_cohort: ratio }],
                thread_per_request_ns: ns,
                rtc_over_cohort64: ratio,
                rtc_over_cohort64_by_process: vec![ratio],
                auto_ns: ns,
                auto_found: ratio as u64,
                rtc_over_auto: ratio,
                rtc_over_auto_by_process: vec![ratio],
                direct_ns: ns,
                rtc_over_direct: ratio,
                spread: Spread::new(),
                noisy_rounds: 1,
            }],
            stages: 8,
            requests: 1,
            rounds: 1,
            processes: 1,
        };
        let report = Report::over(&[report(9.0, 1.0), report(7.0, 3.0), report(8.0, 2.0)]);
        let size = &report.sizes[0];
        assert_eq!((size.run_to_completion_ns, size.rtc_over_cohort64), (7.0, 2.0));
        assert_eq!((size.cohorts[0].ns, size.cohorts[0].rtc_over_cohort), (7.0, 2.0));
        assert_eq!((size.spread["rtc_over_auto"], size.noisy_rounds), ([1.5, 2.5], 3));
        assert_eq!((size.auto_ns, size.rtc_over_auto, size.auto_found), (7.0, 2.0, 2));
        assert_eq!((report.processes, size.rtc_over_cohort64_by_process.len()), (3, 3));
        assert!(report.to_string().contains("7 2.00x"), "{report}");
    }
}
