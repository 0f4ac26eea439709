//! `phalanx bench ladder`: what the runtime finds by itself, against a full sweep.
//!
//! The pipelines are those of [`pipeline`](crate::pipeline), from stages that are tiny to stages that
//! fill the first-level instruction cache each, run as a server runs them: connections that await
//! one stage after the other. Each size of cohort that the ladder may choose is measured with the
//! size declared, beside the automatic setting; so is run to completion.

use std::fmt;
use std::io;
use std::time::Instant;

use clap::Args;
use serde::{Deserialize, Serialize};

use crate::pipeline::{Arm, Error, Line, MAX_WARM_UP_REQUESTS, Setting, in_processes};
use crate::stats::{median, minimum};
use crate::web::cores;

/// KiB of code in each of the eight stages.
const PIPELINES: [u64; 5] = [1, 4, 8, 16, 32];
/// What we call tiny: 32 KiB in all.
const TINY: u64 = 4;
/// What the ladder chooses among; at 1 calls run inside of their callers.
const SWEEP: [(u64, Setting); 7] = [
    (1, Setting::Direct),
    (8, Setting::Cohort(8)),
    (32, Setting::Cohort(32)),
    (64, Setting::Cohort(64)),
    (128, Setting::Cohort(128)),
    (256, Setting::Cohort(256)),
    (512, Setting::Cohort(512)),
];

/// Measure what the runtime finds by itself against a sweep over all sizes of cohorts.
///
/// Five pipelines of eight stages (1, 4, 8, 16 and 32 KiB of generated code each; 4 is what we call
/// tiny), with 512 connections that await one stage after the other. In each the automatic setting runs
/// until it has found a size; then it is measured beside every size that it could have chosen,
/// declared (1: all stages direct), and beside run to completion, in turn.
///
/// JSON: `pipelines[]` with `kib_per_stage`, `found` (the size that was found), `best` (of the sweep),
/// `auto_ns`, `regret` (the automatic setting's time over that of the size it loses most against),
/// `rtc_over_auto` and `sweep[]` (`cohort`, `ns`, `auto_over`); `worst_regret`, `tiny_rtc_over_auto`,
/// `rounds`, `requests`, `processes`. Times are for a request, minima; ratios are medians over the
/// rounds' pairs, then over the processes.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// How many times every size is measured in each process
    #[arg(long, value_name = "N", default_value_t = 9,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=1000))]
    pub rounds: usize,

    /// Processes that measure, one after the other; 0 measures in this one
    #[arg(long, value_name = "N", default_value_t = 3,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(0..=100))]
    pub processes: usize,

    /// One short process: only shows that it runs
    #[arg(long, conflicts_with_all = ["rounds", "processes"])]
    pub quick: bool,

    /// Write the report as JSON
    #[arg(long)]
    pub json: bool,
}

/// What was found.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// By size of the stages.
    pub pipelines: Vec<Pipeline>,
    /// The greatest of them.
    pub worst_regret: f64,
    /// Below 1: plain calls are faster than the automatic setting at tiny stages.
    pub tiny_rtc_over_auto: f64,
    /// In a process.
    pub rounds: usize,
    /// In a round.
    pub requests: usize,
    /// That measured.
    pub processes: usize,
}

/// One pipeline.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Pipeline {
    /// Of code.
    pub kib_per_stage: u64,
    /// The size of cohorts that the runtime keeps; zero if it had found none in time.
    pub found: u64,
    /// The size that cost least when it was declared.
    pub best: u64,
    /// A request in the automatic setting, in nanoseconds.
    pub auto_ns: f64,
    /// What the automatic setting takes over what the size takes that it loses most against.
    pub regret: f64,
    /// Above 1: the automatic setting is faster than plain calls.
    pub rtc_over_auto: f64,
    /// All sizes.
    pub sweep: Vec<Declared>,
}

/// One size, declared.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Declared {
    /// The most operations in a cohort; at 1 all stages are direct.
    pub cohort: u64,
    /// For a request.
    pub ns: f64,
    /// Above 1: the automatic setting takes longer.
    pub auto_over: f64,
}

/// Measures in as many processes as asked for, one after the other; in this one if none. Progress
/// goes to stderr.
///
/// # Errors
/// When a process cannot be started or does not answer.
pub fn run(options: &Options) -> Result<Report, Error> {
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

/// What one process does.
#[derive(Clone, Copy)]
struct Plan {
    rounds: usize,
    /// In a round.
    requests: usize,
    /// Requests at most until a size must have been found.
    settle: usize,
}

/// Measures in this process; the thread stays bound to one core for so long.
fn measure(plan: Plan) -> io::Result<Report> {
    let here = cores::Cores::choose(None, None)?.server;
    let each = || PIPELINES.iter().map(|kib| pipeline(*kib, plan)).collect();
    let pipelines = cores::bound(here, each)?;
    Ok(Report::new(pipelines, plan.rounds, plan.requests, 1))
}

fn pipeline(kib: u64, plan: Plan) -> Pipeline {
    let Plan { rounds, requests, settle } = plan;
    let time = |line: &mut Line| {
        // The first time only warms caches and predictors up.
        line.run();
        let start = Instant::now();
        line.run();
        start.elapsed().as_nanos() as f64 / requests as f64
    };
    let mut auto = Line::new(Arm::Calls(Setting::Auto), kib, requests);
    let mut completion = Line::new(Arm::ToCompletion, kib, requests);
    let mut declared = SWEEP.map(|(_, setting)| Line::new(Arm::Calls(setting), kib, requests));
    let found = auto.settle(settle);
    let mut times: [Vec<(f64, f64)>; SWEEP.len()] = Default::default();
    let mut beside = Vec::new();
    for _ in 0..rounds {
        // Each beside the automatic setting, since the machine's speed changes.
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
    /// With what follows from the sweep.
    fn judged(mut self) -> Self {
        let worst = self.sweep.iter().max_by(|a, b| a.auto_over.total_cmp(&b.auto_over));
        (self.best, self.regret) = worst.map_or((0, f64::NAN), |s| (s.cohort, s.auto_over));
        self
    }
}

impl Report {
    fn new(pipelines: Vec<Pipeline>, rounds: usize, requests: usize, processes: usize) -> Self {
        let worst_regret = pipelines.iter().map(|p| p.regret).fold(f64::NAN, f64::max);
        let tiny = pipelines.iter().find(|p| p.kib_per_stage == TINY);
        let tiny_rtc_over_auto = tiny.map_or(f64::NAN, |p| p.rtc_over_auto);
        Self { pipelines, worst_regret, tiny_rtc_over_auto, rounds, requests, processes }
    }

    /// One report over those of several processes, which measured the same.
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

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { rounds, processes, .. } = self;
        writeln!(
            f,
            "ns for a request through 8 stages, by size of cohorts ({processes} x {rounds}"
        )?;
        writeln!(
            f,
            "rounds); regret: the automatic setting over the size it loses most against\n"
        )?;
        write!(f, "{:>8}", "a stage")?;
        for (cohort, _) in SWEEP {
            write!(f, "{cohort:>8}")?;
        }
        writeln!(f, "{:>9}{:>7}{:>8}{:>10}", "auto", "found", "regret", "rtc/auto")?;
        for pipeline in &self.pipelines {
            write!(f, "{:>8}", format!("{} KiB", pipeline.kib_per_stage))?;
            for declared in &pipeline.sweep {
                write!(f, "{:>8.0}", declared.ns)?;
            }
            let Pipeline { auto_ns, found, regret, rtc_over_auto, .. } = pipeline;
            writeln!(f, "{auto_ns:>9.0}{found:>7}{regret:>8.3}{rtc_over_auto:>10.2}")?;
        }
        Ok(())
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
    fn the_regret_is_that_beside_the_best_size_over_all_processes() {
        let one = report(9.0, [1.2, 1.0]);
        assert_eq!((one.worst_regret, one.pipelines[0].best), (1.2, 1));
        // The median of each size first, and the worst of these: not the worst of a bad process.
        let all = Report::over(&[one, report(7.0, [0.8, 1.01]), report(8.0, [0.9, 1.02])]);
        assert_eq!((all.worst_regret, all.pipelines[0].best), (1.01, 64));
        assert_eq!(
            (all.pipelines[0].auto_ns, all.tiny_rtc_over_auto, all.processes),
            (7.0, 0.9, 3)
        );
    }
}
