//! The ladder on simulated machines: quiet, noisy, changing and congested.

use super::*;

/// A deterministic pseudo-random generator.
struct Draws(u64);

impl Draws {
    fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }
}

/// A machine with constant slight noise, and occasional slowdowns by a factor of 1.3 to 1.7.
struct Machine {
    draws: Draws,
    slow: f64,
    remaining: u64,
}

impl Machine {
    fn new(seed: u64) -> Self {
        Self { draws: Draws(seed * 2_654_435_761 + 1), slow: 1.0, remaining: 0 }
    }

    /// The time that `work` operations take at this cost per operation.
    fn time(&mut self, work: u64, cost: f64) -> u64 {
        let mut time = 0.0;
        let mut rest = work;
        while rest > 0 {
            if self.remaining == 0 {
                self.slow =
                    if self.slow > 1.0 { 1.0 } else { 1.3 + self.draws.next(41) as f64 / 100.0 };
                // A period lasts from two slices to more than a whole trial.
                self.remaining = 8_000 << self.draws.next(7);
            }
            let part = rest.min(self.remaining);
            let jitter = 1.0 + self.draws.next(20) as f64 / 1000.0;
            time += part as f64 * cost * self.slow * jitter;
            (rest, self.remaining) = (rest - part, self.remaining - part);
        }
        time as u64
    }
}

type Costs = [f64; RUNGS.len()];

/// Costs measured on real pipelines, whose code is tiny, just fits the cache, or does not fit.
const PIPELINES: [Costs; 6] = [
    [78.0, 160.0, 110.0, 102.0, 100.0, 100.0, 103.0],
    [150.0, 180.0, 151.0, 148.0, 148.0, 149.0, 153.0],
    [300.0, 310.0, 262.0, 250.0, 246.0, 245.0, 251.0],
    [900.0, 880.0, 460.0, 350.0, 320.0, 310.0, 318.0],
    [900.0, 890.0, 870.0, 600.0, 420.0, 330.0, 300.0],
    [100.0, 100.0, 100.0, 100.0, 100.0, 100.0, 100.0],
];

/// A slice of a steady load with enough operations per turn.
fn slice(work: u64, time: u64) -> Slice {
    Slice { work, time, per_turn: 512.0, changed: false, congested: false }
}

/// The cost of running `work` operations relative to the best rung: overall, and between trials.
fn regret(ladder: &mut CohortLadder, machine: &mut Machine, costs: Costs, work: u64) -> (f64, f64) {
    let best = costs.iter().copied().fold(f64::INFINITY, f64::min);
    let (mut done, mut cost) = (0, 0.0);
    let mut first = true;
    while done < work {
        let of_rung = ladder.rung().map_or(costs[5], |rung| costs[rung]);
        let work = ladder.slice();
        let time = machine.time(work, of_rung);
        ladder.observe(Slice { changed: std::mem::take(&mut first), ..slice(work, time) });
        done += work;
        cost += work as f64 * of_rung;
    }
    (cost / (done as f64 * best), costs[ladder.chosen().expect("tried")] / best)
}

#[test]
fn the_regret_is_small_also_on_a_noisy_machine() {
    for (number, costs) in PIPELINES.into_iter().enumerate() {
        for seed in 1..=40 {
            let (mut ladder, mut machine) = (CohortLadder::default(), Machine::new(seed));
            let (all, chosen) = regret(&mut ladder, &mut machine, costs, 40_000_000);
            assert!(chosen <= 1.05, "pipeline {number}, seed {seed}: keeps {chosen}");
            assert!(all <= 1.05, "pipeline {number}, seed {seed}: {all} in all");
        }
    }
}

#[test]
fn calls_run_inside_and_trials_become_rare_if_cohorts_gain_nothing() {
    let (mut ladder, mut machine) = (CohortLadder::default(), Machine::new(7));
    regret(&mut ladder, &mut machine, PIPELINES[5], 10_000_000);
    assert_eq!(ladder.chosen(), Some(0));
    let before = ladder.trials();
    regret(&mut ladder, &mut machine, PIPELINES[5], 1_000_000_000);
    assert!(ladder.trials() - before < 12, "{} trials", ladder.trials());
}

#[test]
fn a_change_is_noticed_and_followed() {
    let (mut ladder, mut machine) = (CohortLadder::default(), Machine::new(3));
    regret(&mut ladder, &mut machine, PIPELINES[0], 400_000_000);
    assert_eq!(ladder.chosen(), Some(0));
    let trials = ladder.trials();
    // The mix changes here; each check reports the change until the next trial.
    let mut done = 0;
    while ladder.trials() == trials {
        let work = ladder.slice();
        let time = machine.time(work, PIPELINES[3][ladder.rung().unwrap()]);
        ladder.observe(Slice { changed: true, ..slice(work, time) });
        done += work;
    }
    assert!(done < 20_000_000, "followed after {done} operations");
    let chosen = PIPELINES[3][ladder.chosen().unwrap()];
    assert!(chosen <= 310.0 * 1.05, "{chosen}");
}

#[test]
fn trying_takes_a_fiftieth_of_what_follows_the_first_however_much_changes() {
    let (mut ladder, mut machine) = (CohortLadder::default(), Machine::new(5));
    let (mut tried, mut done) = (0, 0);
    while done < 200_000_000 {
        let work = ladder.slice();
        let time = machine.time(work, PIPELINES[2][ladder.rung().unwrap_or(5)]);
        // The first trial is not counted.
        if ladder.trials() > 0 {
            tried += if ladder.is_trying() { work } else { 0 };
            done += work;
        }
        ladder.observe(Slice { changed: true, ..slice(work, time) });
    }
    assert!(ladder.trials() > 5 && tried * 50 <= done, "{tried} of {done}");
}

/// Runs `work` operations of a load that `alter` modifies.
fn during(ladder: &mut CohortLadder, work: u64, alter: impl Fn(Slice) -> Slice) {
    let mut done = 0;
    while done < work {
        let part = ladder.slice().max(1);
        ladder.observe(alter(slice(part, part * 100)));
        done += part;
    }
}

#[test]
fn nothing_is_tried_while_work_waits_or_little_comes_together() {
    let others: [fn(Slice) -> Slice; 2] = [
        |slice| Slice { congested: true, ..slice },
        |slice| Slice { per_turn: MIN_PER_TURN / 2.0, ..slice },
    ];
    for other in others {
        let mut ladder = CohortLadder::default();
        during(&mut ladder, 10_000_000, other);
        assert!(!ladder.is_trying() && ladder.trials() == 0 && ladder.chosen().is_none());
        // A trial begins soon after the condition ends,
        during(&mut ladder, 2 * CHECK_INTERVAL, |slice| slice);
        assert!(ladder.is_trying());
        // and aborts without a decision when the condition returns.
        during(&mut ladder, 8 * MIN_SLICE, other);
        assert!(!ladder.is_trying() && ladder.chosen().is_none() && ladder.trials() == 0);
    }
}

#[test]
fn a_load_that_changes_under_way_ends_the_trial_and_what_was_kept_stays() {
    let (mut ladder, mut machine) = (CohortLadder::default(), Machine::new(9));
    regret(&mut ladder, &mut machine, PIPELINES[3], 5_000_000);
    let (chosen, trials) = (ladder.chosen(), ladder.trials());
    while !ladder.is_trying() {
        during(&mut ladder, 1, |slice| slice);
    }
    during(&mut ladder, 8 * MIN_SLICE, |slice| slice);
    assert!(ladder.is_trying());
    during(&mut ladder, 8 * MIN_SLICE, |slice| Slice { per_turn: 512.0 / 5.0, ..slice });
    assert!(!ladder.is_trying());
    assert_eq!((ladder.chosen(), ladder.rung(), ladder.trials()), (chosen, chosen, trials));
}

#[test]
fn by_a_clock_that_stands_still_nothing_is_decided() {
    let mut ladder = CohortLadder::default();
    during(&mut ladder, 2_000_000, |slice| Slice { time: 0, ..slice });
    assert!(!ladder.is_trying() && ladder.chosen().is_none() && ladder.trials() == 0);
}
