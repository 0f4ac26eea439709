//! `phalanx-bench ladder`: the cohort size that the tuner finds, compared with a full sweep.
//!
//! The pipelines are those of [`pipeline`](crate::experiments::pipeline), from tiny stages to stages that each fill the
//! first-level instruction cache, run as in a server: connections that await one stage after another. Each size
//! that the tuner may choose is measured with the size declared, next to the automatic setting and run to
//! completion.

use std::io;

use clap::Args;
use serde::Deserialize;

use crate::arguments::number;
use crate::error::Error;
use crate::experiments::pipeline::{Arm, Line, MAX_WARM_UP_REQUESTS, Setting, in_processes};
use crate::measure::{median, minimum, record, stretch};
use crate::system::cores;

/// KiB of code in each of the eight stages.
const PIPELINES: [u64; 5] = [1, 4, 8, 16, 32];
/// Size of a stage of the tiny pipeline, of 32 KiB in all.
const TINY: u64 = 4;
/// The sizes among which the tuner chooses; at 1 calls run inline.
const SWEEP: [(u64, Setting); 7] = [
    (1, Setting::Direct),
    (8, Setting::Cohort(8)),
    (32, Setting::Cohort(32)),
    (64, Setting::Cohort(64)),
    (128, Setting::Cohort(128)),
    (256, Setting::Cohort(256)),
    (512, Setting::Cohort(512)),
];

/// Measure the cohort size that the runtime finds, compared with a sweep over all sizes.
///
/// Five pipelines of eight stages (1, 4, 8, 16 and 32 KiB of generated code each; 4 is called tiny), with 512
/// connections that await one stage after another. In each, the automatic setting runs until it has found a size.
/// Then it is measured in turn with every size that it could have chosen, declared (1: all stages direct), and
/// with run to completion.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Rounds per process
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = number(1..=1000))]
    pub(crate) rounds: usize,

    /// Number of measuring processes, one after another; 0 measures in this process
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = number(0..=100))]
    pub(crate) processes: usize,

    /// One short process: only checks that it runs
    #[arg(long, conflicts_with_all = ["rounds", "processes"])]
    pub(crate) quick: bool,
}

record! {
    /// The report.
    #[derive(Deserialize)]
    pub(crate) struct Report, fn new(pipelines: Vec<Pipeline>, rounds: usize, requests: usize, processes: usize) where {
        let tiny = pipelines.iter().find(|pipeline| pipeline.kib_per_stage == TINY);
    } {
        /// One pipeline per stage size.
        pipelines: Vec<Pipeline> | "ns per request through 8 stages; regret: the automatic setting over the size that it loses most against", 0;
        /// The largest `regret`.
        worst_regret: f64 => "worst regret", 3
            = pipelines.iter().map(|pipeline| pipeline.regret).fold(f64::NAN, f64::max);
        /// Run to completion over the automatic setting at tiny stages; below 1, plain calls are faster.
        tiny_rtc_over_auto: f64 => "run to completion over automatic, tiny stages", 2
            = tiny.map_or(f64::NAN, |pipeline| pipeline.rtc_over_auto);
        /// Rounds per process.
        rounds: usize => "rounds", 0;
        /// Requests per round.
        requests: usize;
        /// Number of measuring processes.
        processes: usize => "processes", 0;
    }
}

record! {
    /// One pipeline.
    #[derive(Deserialize)]
    pub(crate) struct Pipeline {
        /// KiB of code per stage.
        kib_per_stage: u64 => "KiB a stage", 0;
        /// The cohort size that the runtime keeps; 0 if it found none in time.
        found: u64 => "found", 0;
        /// The fastest declared size.
        best: u64 => "best", 0;
        /// Nanoseconds per request in the automatic setting.
        auto_ns: f64 => "auto", 0;
        /// Time of the automatic setting over that of the fastest size, by the rounds' pairs.
        regret: f64 => "regret", 3;
        /// Run to completion over the automatic setting; above 1, the automatic setting is faster.
        rtc_over_auto: f64 => "rtc/auto", 2;
        sweep: Vec<Declared> | "declared sizes", 0;
    }
}

record! {
    /// One declared size.
    #[derive(Deserialize)]
    pub(crate) struct Declared {
        /// Maximum number of operations per cohort; at 1 all stages are direct.
        cohort: u64 => "cohort", 0;
        /// Nanoseconds per request.
        ns: f64 => "ns", 0;
        /// Time of the automatic setting over that of this size; above 1, the automatic setting is slower.
        auto_over: f64 => "auto over", 3;
    }
}

/// Measures in the given number of processes, one after another, or in this one for 0.
pub(crate) fn run(options: &Options) -> Result<Report, Error> {
    let plan = match options.quick {
        true => Plan { rounds: 1, requests: 128, settle: 256 },
        false => Plan { rounds: options.rounds, requests: 8192, settle: MAX_WARM_UP_REQUESTS },
    };
    let (rounds, processes) = (plan.rounds, if options.quick { 0 } else { options.processes });
    if processes == 0 {
        return Ok(measure(plan)?);
    }
    let reports = in_processes(processes, "ladder", &[format!("--rounds={rounds}")], "")?;
    Ok(Report::over(&reports))
}

/// Work of one process.
#[derive(Clone, Copy)]
struct Plan {
    rounds: usize,
    /// Requests per round.
    requests: usize,
    /// Maximum number of requests until a size must have been found.
    settle: usize,
}

/// Measures in this process, with the thread bound to one core meanwhile.
fn measure(plan: Plan) -> io::Result<Report> {
    let here = cores::first()?;
    let each = || PIPELINES.iter().map(|kib| pipeline(*kib, plan)).collect();
    let pipelines = cores::bound(&here, each)?;
    Ok(Report::new(pipelines, plan.rounds, plan.requests, 1))
}

fn pipeline(kib: u64, plan: Plan) -> Pipeline {
    let Plan { rounds, requests, settle } = plan;
    let time = |line: &mut Line| {
        // The first run warms up caches and predictors.
        line.run();
        stretch::time(line.name(), requests, || line.run())
    };
    let mut auto = Line::new(Arm::Calls(Setting::Auto), kib, requests);
    let mut completion = Line::new(Arm::ToCompletion, kib, requests);
    let mut declared = SWEEP.map(|(_, setting)| Line::new(Arm::Calls(setting), kib, requests));
    let found = auto.settle(settle);
    let mut times: [Vec<(f64, f64)>; SWEEP.len()] = Default::default();
    let mut beside = Vec::new();
    for _ in 0..rounds {
        // Pair each with the automatic setting, because the speed of the machine varies.
        for (line, times) in declared.iter_mut().zip(&mut times) {
            times.push((time(line), time(&mut auto)));
        }
        beside.push(time(&mut completion) / time(&mut auto));
    }
    let sweep: Vec<Declared> = SWEEP
        .iter()
        .zip(&times)
        .map(|((cohort, _), times)| {
            let over: Vec<f64> = times.iter().map(|(declared, auto)| auto / declared).collect();
            let declared: Vec<f64> = times.iter().map(|(declared, _)| *declared).collect();
            Declared { cohort: *cohort, ns: minimum(&declared), auto_over: median(&over) }
        })
        .collect();
    let autos: Vec<f64> = times.iter().flatten().map(|(_, auto)| *auto).collect();
    let pipeline = Pipeline {
        kib_per_stage: kib,
        found,
        best: 0,
        auto_ns: minimum(&autos),
        regret: 0.0,
        rtc_over_auto: median(&beside),
        sweep,
    }
    .judged();
    eprintln!(
        "  8 x {kib} KiB: found {}, best {}, regret {:.3}",
        pipeline.found, pipeline.best, pipeline.regret
    );
    pipeline
}

impl Pipeline {
    /// Computes the figures that depend on the sweep.
    fn judged(mut self) -> Self {
        let worst = self.sweep.iter().max_by(|a, b| a.auto_over.total_cmp(&b.auto_over));
        (self.best, self.regret) = worst.map_or((0, f64::NAN), |s| (s.cohort, s.auto_over));
        self
    }
}

impl Report {
    /// Combines the reports of several processes that measured the same.
    fn over(reports: &[Report]) -> Self {
        let first = &reports[0];
        let pipelines = first.pipelines.iter().enumerate().map(|(n, pipeline)| {
            let each = |f: &dyn Fn(&Pipeline) -> f64| -> Vec<f64> {
                reports.iter().map(|report| f(&report.pipelines[n])).collect()
            };
            let sweep = pipeline.sweep.iter().enumerate().map(|(s, declared)| Declared {
                cohort: declared.cohort,
                ns: minimum(&each(&|pipeline| pipeline.sweep[s].ns)),
                auto_over: median(&each(&|pipeline| pipeline.sweep[s].auto_over)),
            });
            Pipeline {
                auto_ns: minimum(&each(&|pipeline| pipeline.auto_ns)),
                rtc_over_auto: median(&each(&|pipeline| pipeline.rtc_over_auto)),
                sweep: sweep.collect(),
                ..pipeline.clone()
            }
            .judged()
        });
        Self::new(pipelines.collect(), first.rounds, first.requests, reports.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(ns: f64, over: [f64; 2]) -> Report {
        let sweep = [(1, over[0]), (64, over[1])];
        let sweep = sweep.map(|(cohort, auto_over)| Declared { cohort, ns, auto_over });
        let pipeline = Pipeline {
            kib_per_stage: TINY,
            found: 64,
            best: 0,
            auto_ns: ns,
            regret: 0.0,
            rtc_over_auto: over[0],
            sweep: sweep.to_vec(),
        };
        Report::new(vec![pipeline.judged()], 1, 1, 1)
    }

    #[test]
    fn the_regret_is_relative_to_the_best_size_over_all_processes() {
        let one = report(9.0, [1.2, 1.0]);
        assert_eq!((one.worst_regret, one.pipelines[0].best), (1.2, 1));
        // The median per size first, then the worst size; not the worst of a disturbed process.
        let all = Report::over(&[one, report(7.0, [0.8, 1.01]), report(8.0, [0.9, 1.02])]);
        assert_eq!((all.worst_regret, all.pipelines[0].best), (1.01, 64));
        assert_eq!(
            (all.pipelines[0].auto_ns, all.tiny_rtc_over_auto, all.processes),
            (7.0, 0.9, 3)
        );
    }
}
