//! Tests of the control law against the model, and of its individual steps.

use super::model::{MS, Model, Outcome, SECOND, Segment};
use super::*;

const PROCESSORS: usize = 8;
/// The seeds of a trace.
const SEEDS: u64 = 5;
/// The time of a load in seconds for which all numbers of processors are tried.
const SAMPLE: f64 = 4.0;

fn segment(seconds: f64, load: f64) -> Segment {
    Segment { seconds, load, hot: 0.0 }
}

/// The distinct loads of a trace with the time of each, and the latencies with each number of processors.
struct Levels(Vec<(Segment, Vec<Vec<u64>>)>);

impl Levels {
    fn of(trace: &[Segment]) -> Self {
        let mut levels: Vec<Segment> = Vec::new();
        for segment in trace {
            match levels.iter_mut().find(|level| level.load == segment.load) {
                Some(level) => level.seconds += segment.seconds,
                None => levels.push(*segment),
            }
        }
        let latencies = |level: &Segment| {
            let sample = Segment { seconds: SAMPLE, ..*level };
            (1..=PROCESSORS).map(|number| Model::fixed(number, 7).run(&[sample]).latency).collect()
        };
        Self(levels.iter().map(|level| (*level, latencies(level))).collect())
    }

    /// The minimum of the number of processors, integrated over the trace, with which the p99 is at most `limit`. It is
    /// taken over all choices of a number for each distinct load of the trace.
    fn least_seats(&self, limit: u64) -> f64 {
        // By level and number: the requests above the limit, and all requests.
        let late = |level: &Segment, latency: &Vec<u64>| {
            let late = latency.iter().filter(|latency| **latency > limit).count();
            let scale = level.seconds / SAMPLE;
            (scale * late as f64, scale * latency.len() as f64)
        };
        let by_number = |(level, latencies): &(Segment, Vec<Vec<u64>>)| {
            latencies.iter().map(|latency| late(level, latency)).collect()
        };
        let table: Vec<Vec<(f64, f64)>> = self.0.iter().map(by_number).collect();
        let choices = (0..PROCESSORS.pow(self.0.len() as u32)).map(|choice| {
            let digit = |level: usize| choice / PROCESSORS.pow(level as u32) % PROCESSORS;
            let chosen = table.iter().enumerate().map(|(level, row)| row[digit(level)]);
            let (late, all) = chosen.fold((0.0, 0.0), |sum, part| (sum.0 + part.0, sum.1 + part.1));
            let seats = |(level, (segment, _)): (usize, &(Segment, _))| {
                (1 + digit(level)) as f64 * segment.seconds * SECOND as f64
            };
            (late <= 0.01 * all, self.0.iter().enumerate().map(seats).sum::<f64>())
        });
        choices
            .filter(|(is_kept, _)| *is_kept)
            .map(|(_, seats)| seats)
            .fold(f64::INFINITY, f64::min)
    }
}

/// The least fraction of the possible saving that the law achieves with some seeds, and the greatest ratio of its p99
/// to the p99 with all processors.
fn saving(trace: &[Segment]) -> (f64, f64) {
    let levels = Levels::of(trace);
    (1..=SEEDS).fold((f64::INFINITY, 0.0), |(min_saving, max_p99), seed| {
        let mut all = Model::fixed(PROCESSORS, seed).run(trace);
        let mut law = Model::scaled(1, PROCESSORS, seed).run(trace);
        assert!(law.busy <= all.busy, "larger cohorts cost less");
        let possible = all.seats - levels.least_seats(law.p99());
        let saving = (all.seats - law.seats) / possible;
        let p99 = law.p99() as f64 / all.p99() as f64;
        (min_saving.min(saving), max_p99.max(p99))
    })
}

fn steps_up(outcome: &Outcome) -> usize {
    let targets = std::iter::once(PROCESSORS).chain(outcome.steps.iter().map(|step| step.1));
    let targets: Vec<usize> = targets.collect();
    targets.windows(2).filter(|pair| pair[1] > pair[0]).count()
}

#[test]
fn a_day_saves_most_of_what_is_possible() {
    let day = [0.4, 1.5, 3.0, 4.5, 3.0, 1.5, 0.4].map(|load| segment(25.0, load));
    let (saving, p99) = saving(&day);
    assert!(saving >= 0.85 && p99 < 1.15, "{saving} with a p99 of {p99}");
}

#[test]
fn steps_and_spikes_save_most_of_what_is_possible() {
    let step = [segment(60.0, 1.0), segment(10.0, 5.0), segment(60.0, 1.0)];
    let spike = [segment(60.0, 1.0), segment(0.5, 5.0), segment(60.0, 1.0)];
    // More than 1 % of the requests arrive in the short spike before the step.
    for (trace, max_p99) in [(step, 1.25), (spike, 2.5)] {
        let (saving, p99) = saving(&trace);
        assert!(saving >= 0.85 && p99 < max_p99, "{saving} with a p99 of {p99}");
    }
}

#[test]
fn a_hot_key_saves_most_of_what_is_possible() {
    // The key takes most of one processor.
    for load in [0.8, 1.5] {
        let (saving, p99) = saving(&[Segment { seconds: 60.0, load, hot: 0.7 / load }]);
        assert!(saving >= 0.85 && p99 < 1.75, "{load}: {saving} with a p99 of {p99}");
    }
}

#[test]
fn a_steady_load_steps_at_most_once_in_ten_seconds() {
    for part in 0..6 {
        let outcome =
            Model::scaled(1, PROCESSORS, part).run(&[segment(55.0, 0.3 + 0.7 * part as f64)]);
        let settled = outcome.steps.iter().filter(|step| step.0 > 15 * SECOND).count();
        assert!(settled <= 2, "{:?}", outcome.steps);
    }
}

#[test]
fn a_burst_gets_all_processors_within_milliseconds() {
    let outcome = Model::scaled(1, PROCESSORS, 3).run(&[segment(10.0, 0.4), segment(1.0, 4.0)]);
    let burst = outcome.steps.iter().find(|step| step.0 > 10 * SECOND).unwrap();
    assert_eq!((burst.1, burst.2), (PROCESSORS, ScalingReason::Saturated));
    assert!(burst.0 < 10 * SECOND + 40 * MS, "a request takes 0.75 ms: {burst:?}");
}

#[test]
fn no_processor_is_added_for_a_key() {
    for (load, hot) in [(1.1, 0.99), (1.2, 0.9), (1.4, 0.75), (3.0, 0.95)] {
        let outcome = Model::scaled(1, PROCESSORS, 5).run(&[Segment { seconds: 30.0, load, hot }]);
        assert_eq!(steps_up(&outcome), 0, "{load} {hot}: {:?}", outcome.steps);
        assert!(outcome.steps.last().is_some_and(|step| step.1 <= 4), "{:?}", outcome.steps);
    }
}

/// Ends intervals of 100 ms with the same loads. Returns the last step, and the time.
fn run_interval(
    law: &mut Scaling,
    now: u64,
    checks: u64,
    loads: &[ProcessorLoad],
) -> (ScalingStep, u64) {
    let mut last = None;
    for run_interval in 1..=checks {
        last = Some(law.interval_over(now + run_interval * 100 * MS, loads));
    }
    (last.unwrap(), now + checks * 100 * MS)
}

fn loads(active: usize, load: u32, is_saturated: bool) -> [ProcessorLoad; 4] {
    let mut loads = [ProcessorLoad::default(); 4];
    loads[..active].fill(ProcessorLoad { load, indivisible: 0, is_saturated });
    loads
}

#[test]
fn the_number_stays_within_its_limits() {
    let mut law = Scaling::new(2, 4, 0);
    assert_eq!(law.active(), 4);
    let (step, now) = run_interval(&mut law, 0, 100, &loads(4, 0, false));
    assert_eq!(step.active, 2);
    let (step, _) = run_interval(&mut law, now, 1, &loads(2, 1000, true));
    assert_eq!((step.active, step.reason), (4, ScalingReason::Saturated));
    assert_eq!(Scaling::new(9, 0, 0).active(), 1);
}

#[test]
fn a_burst_at_the_end_of_an_interval_is_seen() {
    let mut law = Scaling::new(1, 4, 0);
    let (_, now) = run_interval(&mut law, 0, 100, &loads(1, 200, false));
    assert_eq!(law.active(), 1);
    let step = law.interval_over(now + 60 * MS, &loads(1, 260, true));
    assert_eq!((step.active, step.reason), (4, ScalingReason::Saturated));
    let (step, _) = run_interval(&mut law, now + 60 * MS, 60, &loads(4, 50, false));
    assert_eq!(step.active, 1, "the load before the burst was not too high");
}

#[test]
fn one_saturated_processor_of_several_needs_no_more() {
    let mut law = Scaling::new(1, 4, 0);
    let (_, now) = run_interval(&mut law, 0, 100, &loads(4, 350, false));
    assert_eq!(law.active(), 2);
    let mut some = loads(2, 400, false);
    some[0].is_saturated = true;
    assert_eq!(run_interval(&mut law, now, 1, &some).0.active, 2);
}

#[test]
fn inactive_processors_count_with_the_work_that_they_still_have() {
    let mut law = Scaling::new(1, 4, 0);
    let (step, _) = run_interval(&mut law, 0, 100, &loads(4, 300, false));
    assert_eq!(step.active, 2, "1,200 thousandths");
}

#[test]
fn a_number_that_was_too_small_is_avoided_for_longer_each_time() {
    let (mut law, mut now) = (Scaling::new(1, 2, 0), 0);
    let mut tried = Vec::new();
    while tried.len() < 4 {
        let count = law.active();
        let is_small = count == 1;
        let step =
            law.interval_over(now, &loads(count, if is_small { 980 } else { 370 }, is_small));
        if step.active < count {
            tried.push(now);
        }
        now += 100 * MS;
    }
    let pauses: Vec<u64> = tried.windows(2).map(|pair| (pair[1] - pair[0]) / SECOND).collect();
    assert!(pauses[0] >= 30 && pauses[1] >= 60 && pauses[2] >= 120, "{pauses:?}");
}

#[test]
fn a_smaller_load_ends_the_pause() {
    let mut law = Scaling::new(1, 2, 0);
    let (_, now) = run_interval(&mut law, 0, 60, &loads(2, 370, false));
    assert_eq!(law.active(), 1);
    let (_, now) = run_interval(&mut law, now, 5, &loads(1, 990, true));
    assert_eq!(law.active(), 2);
    let (step, _) = run_interval(&mut law, now, 80, &loads(2, 200, false));
    assert_eq!((step.active, law.active()), (1, 1));
}

#[test]
fn a_saturation_by_chance_is_undone_after_a_second() {
    let mut law = Scaling::new(1, 4, 0);
    let (_, now) = run_interval(&mut law, 0, 100, &loads(4, 100, false));
    assert_eq!(law.active(), 1);
    let (_, now) = run_interval(&mut law, now, 1, &loads(1, 410, true));
    assert_eq!(law.active(), 4);
    let (step, now) = run_interval(&mut law, now, 9, &loads(4, 100, false));
    assert_eq!(step.active, 4);
    let (step, now) = run_interval(&mut law, now, 3, &loads(4, 100, false));
    assert_eq!(step.active, 1);
    // The load rises.
    let (_, now) = run_interval(&mut law, now, 1, &loads(1, 410, true));
    let (_, now) = run_interval(&mut law, now, 3, &loads(4, 150, false));
    let (step, now) = run_interval(&mut law, now, 35, &loads(4, 100, false));
    assert_eq!(step.active, 4);
    assert_eq!(run_interval(&mut law, now, 10, &loads(4, 100, false)).0.active, 1);
}

#[test]
fn a_step_down_that_proved_too_small_is_undone() {
    let mut law = Scaling::new(1, 8, 0);
    let each = |active: usize, load, is_saturated| {
        let mut loads = [ProcessorLoad::default(); 8];
        loads[..active].fill(ProcessorLoad { load, indivisible: 0, is_saturated });
        loads
    };
    let (_, now) = run_interval(&mut law, 0, 45, &each(8, 580, false));
    assert_eq!(law.active(), 6);
    let (_, now) = run_interval(&mut law, now, 60, &each(6, 640, false));
    assert_eq!(law.active(), 5);
    let (step, now) = run_interval(&mut law, now, 1, &each(5, 920, true));
    assert_eq!((step.active, step.reason), (6, ScalingReason::Saturated), "not 7");
    // The load has risen since.
    let (_, now) = run_interval(&mut law, now, 20, &each(6, 880, false));
    assert_eq!(run_interval(&mut law, now, 1, &each(6, 950, true)).0.active, 8);
}
