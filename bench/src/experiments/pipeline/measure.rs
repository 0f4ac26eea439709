//! Measures in one process: all arms in turn, round after round.

use std::convert::Infallible;
use std::io;

use super::Plan;
use super::arms::{Arm, Line};
use super::calls::Setting;
use super::code;
use super::report::{Cohort, Report, Size};
use crate::measure::stats::spread;
use crate::measure::{Taken, median, minimum, rounds, stretch};
use crate::system::cores;

/// Divides the number of requests for threads, which are much slower.
const FEWER_FOR_THREADS: usize = 8;

/// The arms in their order; compared ones are adjacent.
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

/// Measures in this process, with the thread bound to one core meanwhile.
pub(crate) fn measure(plan: &Plan) -> io::Result<Report> {
    let here = cores::first()?;
    let sizes = cores::bound(&here, || plan.kib.iter().map(|kib| size(*kib, plan)).collect())?;
    Ok(Report::new(sizes, plan))
}

fn size(kib: u64, plan: &Plan) -> Size {
    let mut lines = ARMS.map(|arm| {
        let fewer = if arm == Arm::Thread { FEWER_FOR_THREADS } else { 1 };
        let count = (plan.requests / fewer).max(1);
        (Line::new(arm, kib, count), count)
    });
    let found = lines[AUTO].0.settle(plan.settle);
    let round = || {
        let mut times = [0.0; ARMS.len()];
        for ((line, count), time) in lines.iter_mut().zip(&mut times) {
            // The first run warms up caches and predictors.
            line.run();
            *time = stretch::time(line.name(), *count, || line.run());
        }
        Ok::<_, Infallible>(times)
    };
    let Ok(Taken { rounds: taken, noisy }) = rounds::take(plan.rounds, round);
    let times: [Vec<f64>; ARMS.len()] =
        std::array::from_fn(|arm| taken.iter().map(|times| times[arm]).collect());
    let ratios = |arm: usize| {
        let ratio = |times: &[f64; ARMS.len()]| times[TO_COMPLETION] / times[arm];
        taken.iter().map(ratio).collect::<Vec<f64>>()
    };
    let over = |arm: usize| median(&ratios(arm));
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
    let sixty_four = ARMS.iter().position(|arm| *arm == Arm::Cohort(64));
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
        spread: spread([
            ("rtc_over_cohort64", sixty_four.map_or(Vec::new(), ratios)),
            ("rtc_over_auto", ratios(AUTO)),
            ("rtc_over_direct", ratios(DIRECT)),
        ]),
        noisy_rounds: noisy,
    }
}
