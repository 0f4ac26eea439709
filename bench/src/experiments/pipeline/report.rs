//! The report of `phalanx-bench pipeline`.

use serde::Deserialize;

use super::Plan;
use super::code::STAGES;
use super::misses::MissRow;
use crate::measure::stats::spread;
use crate::measure::{Spread, median, minimum, record};

record! {
    /// The report. Times are in nanoseconds per request through all stages, minima; ratios are medians of the rounds'
    /// pairs, and of the processes.
    #[derive(Deserialize)]
    pub(crate) struct Report {
        /// One per size of the stages.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        sizes: Vec<Size> | "ns per request through all stages; rtc: run to completion", 0;
        /// Misses with `--misses`: one row per size of stage and cohort.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        rows: Vec<MissRow> | "simulated misses of the instruction cache (32 KiB, 8 ways) per request", 1;
        /// Misses in cohorts of 64 over those in cohorts of 1, per size of stage.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        cohort64_over_1: Vec<f64> => "misses of cohorts of 64 over 1, by size", 3;
        stages: usize => "stages", 0;
        /// Requests per round.
        requests: usize;
        /// Rounds per process.
        rounds: usize => "rounds", 0;
        /// Number of measuring processes.
        processes: usize => "processes", 0;
    }
}

record! {
    /// All arms with stages of one size.
    #[derive(Deserialize)]
    pub(crate) struct Size {
        /// Nominal size of a stage's code.
        kib_per_stage: u64 => "KiB a stage", 0;
        /// Actual size of a stage's code, from the addresses of its parts.
        stage_bytes: u64;
        /// One request after another through all stages, plain calls.
        run_to_completion_ns: f64 => "rtc", 0;
        /// Cohorts on the runtime.
        cohorts: Vec<Cohort> | "cohorts", 0;
        thread_per_request_ns: f64 => "thread", 0;
        /// Run to completion over cohorts of 64; above 1, cohorts are faster.
        rtc_over_cohort64: f64 => "rtc/cohort 64", 2;
        /// The same per process.
        rtc_over_cohort64_by_process: Vec<f64>;
        /// On the runtime with awaited calls, in the automatic setting.
        auto_ns: f64 => "auto", 0;
        /// The cohort size that the tuner found there; at 1 calls run inline. Zero if it tried none, since queueing
        /// delays were too long.
        auto_found: u64 => "found", 0;
        /// Run to completion over the automatic setting; above 1, the automatic setting is faster.
        rtc_over_auto: f64 => "rtc/auto", 2;
        /// The same per process.
        rtc_over_auto_by_process: Vec<f64>;
        /// The same calls to stages declared direct: the minimum cost of the runtime.
        direct_ns: f64 => "direct", 0;
        /// Run to completion over direct calls; below 1 by that cost.
        rtc_over_direct: f64 => "rtc/direct", 2;
        /// Quartiles of the ratios: of the rounds in one process, or of the processes.
        spread: Spread;
        /// Rounds kept although other processes used the machine, in all processes.
        noisy_rounds: usize => "disturbed", 0;
    }
}

record! {
    /// One cohort size.
    #[derive(Deserialize)]
    pub(crate) struct Cohort {
        /// Maximum number of operations.
        cohort: usize => "cohort", 0;
        /// Nanoseconds per request.
        ns: f64 => "ns", 0;
        /// Run to completion over this size; above 1, cohorts are faster.
        rtc_over_cohort: f64 => "rtc over", 2;
    }
}

impl Report {
    /// A report of one process.
    pub(super) fn new(sizes: Vec<Size>, plan: &Plan) -> Self {
        let Plan { requests, rounds, .. } = *plan;
        let (rows, cohort64_over_1) = Default::default();
        Self { sizes, rows, cohort64_over_1, stages: STAGES, requests, rounds, processes: 1 }
    }

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::record::text;

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
            rows: Vec::new(),
            cohort64_over_1: Vec::new(),
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
        let text = text(&report);
        assert!(
            text.contains("  cohort  ns  rtc over\n            4      64   7      2.00\n"),
            "{text}"
        );
    }
}
