//! One process: all arms in turn, round after round.

use std::io;
use std::time::Instant;

use super::arms::{Arm, Line, MOST_TO_SETTLE};
use super::calls::Setting;
use super::code::{self, STAGES};
use super::options::Plan;
use super::report::{Cohort, Report, Size};
use crate::stats::{median, minimum};
use crate::web::cores;

/// Threads are so much dearer that a part of the requests is enough.
const FEWER_FOR_THREADS: usize = 8;

/// In the order in which they take turns: those that are compared stand side by side.
const ARMS: [Arm; 9] = [
    Arm::Thread,
    Arm::Cohort(1),
    Arm::Cohort(4),
    Arm::Cohort(16),
    Arm::Calls(Setting::Auto),
    Arm::ToCompletion,
    Arm::Calls(Setting::Direct),
    Arm::Cohort(64),
    Arm::Cohort(256),
];
const AUTO: usize = 4;
const TO_COMPLETION: usize = 5;
const DIRECT: usize = 6;

/// Measures in this process; the thread stays bound to one core for so long.
pub(crate) fn measure(plan: &Plan) -> io::Result<Report> {
    let here = cores::Cores::choose(None, None)?.server;
    let sizes = cores::bound(here, || plan.kib.iter().map(|kib| size(*kib, plan)).collect())?;
    Ok(Report { sizes, stages: STAGES, requests: plan.requests, rounds: plan.rounds, processes: 1 })
}

fn size(kib: u64, plan: &Plan) -> Size {
    let mut lines = ARMS.map(|arm| {
        let fewer = if arm == Arm::Thread { FEWER_FOR_THREADS } else { 1 };
        let count = (plan.requests / fewer).max(1);
        (Line::new(arm, kib, count), count)
    });
    let found = lines[AUTO].0.settle(MOST_TO_SETTLE);
    let mut times: [Vec<f64>; ARMS.len()] = Default::default();
    for _ in 0..plan.rounds {
        for ((line, count), times) in lines.iter_mut().zip(&mut times) {
            // The first time only warms caches and predictors up.
            line.run();
            let start = Instant::now();
            line.run();
            times.push(start.elapsed().as_nanos() as f64 / *count as f64);
        }
    }
    let over = |arm: usize| {
        let pairs = times[TO_COMPLETION].iter().zip(&times[arm]);
        median(&pairs.map(|(rtc, other)| rtc / other).collect::<Vec<_>>())
    };
    let cohorts: Vec<Cohort> = ARMS
        .iter()
        .enumerate()
        .filter_map(|(n, arm)| match arm {
            Arm::Cohort(cohort) => {
                Some(Cohort { cohort: *cohort, ns: minimum(&times[n]), rtc_over_cohort: over(n) })
            }
            _ => None,
        })
        .collect();
    let ratio = cohorts.iter().find(|c| c.cohort == 64).map_or(f64::NAN, |c| c.rtc_over_cohort);
    let auto = over(AUTO);
    eprintln!(
        "  8 x {kib} KiB: run to completion over cohorts of 64: {ratio:.2}, over automatic: {auto:.2}"
    );
    Size {
        kib_per_stage: kib,
        stage_bytes: code::stage_bytes(kib),
        run_to_completion_ns: minimum(&times[TO_COMPLETION]),
        cohorts,
        thread_per_request_ns: minimum(&times[0]),
        rtc_over_cohort64: ratio,
        rtc_over_cohort64_by_process: vec![ratio],
        auto_ns: minimum(&times[AUTO]),
        auto_found: found,
        rtc_over_auto: auto,
        rtc_over_auto_by_process: vec![auto],
        direct_ns: minimum(&times[DIRECT]),
        rtc_over_direct: over(DIRECT),
    }
}
