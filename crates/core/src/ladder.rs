//! The paired ladder: which size of cohort costs the least time for an operation, found by trying.
//!
//! Whether cohorts pay depends on how much code and data the stages touch beside the caches of this
//! machine, which no declaration says. So the sizes (the *rungs*) are tried, over and over, in short
//! slices of work, each beside a slice of the same reference: what disturbs the machine for longer
//! than two slices hits both, and what hits one alone is thrown out with the median of the rounds. The
//! smallest within 3 % of the best is kept. Trying takes a bounded part of the work, and less and less
//! of it while the result stays the same; it begins anew when the mix of operations or their number
//! at a time has changed. (Climbing from where one stands does not work: between 1 and 8 there is
//! often nothing to gain.)
//!
//! This file is the law alone, on numbers; [`crate::auto`] measures and applies it.

/// The sizes that are tried. At the first one calls run inside of their callers.
pub(crate) const RUNGS: [usize; 7] = [1, 8, 32, 64, 128, 256, 512];
/// Slices of each rung; odd, so that there is a middle one.
const ROUNDS: usize = 5;
/// Operations started in a slice, at least; large cohorts need longer ones.
const SLICE: u64 = 4096;
/// As good as the best.
const CLOSE: f64 = 1.03;
/// So much dearer than the best that one look is enough.
const HOPELESS: f64 = 3.0;
/// What the rungs are compared with at first: later with the one that is kept.
const REFERENCE: usize = 3;
/// Before the first trial, for the program to get under way.
const WARM_UP: u64 = 16_384;
/// After a trial rests at least so many times as much work as it took, and at most.
const REST: (u64, u64) = (32, 1024);
/// The least rest, so many times the trial's work, when what is run has changed.
const UNREST: u64 = 12;
/// In a rest is looked so often, after so many operations, whether it has.
const LOOK: u64 = 32_768;

/// What a slice of work has come to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slice {
    /// Operations started.
    pub(crate) work: u64,
    /// The processor's nanoseconds.
    pub(crate) time: u64,
    /// Whether the mix or the number at a time is another than after the last trial.
    pub(crate) changed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Until so much work is done; it began with so much.
    Rest {
        left: u64,
        whole: u64,
    },
    Try(Try),
}

/// A slice of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Try {
    round: usize,
    rung: usize,
    /// The reference's slice, before the rung's own.
    reference: bool,
    /// Its first operations, which those of the slice before still disturb.
    settles: bool,
}

/// The state of one processor's ladder.
#[derive(Debug)]
pub(crate) struct Ladder {
    phase: Phase,
    /// The rung that is kept, once there is one.
    kept: Option<usize>,
    /// What each rung costs beside the reference, by round; none where it was not tried.
    ratios: [[Option<f64>; ROUNDS]; RUNGS.len()],
    reference: usize,
    /// Nanoseconds for an operation in the reference's last slice, and in its best of the trial.
    beside: f64,
    best_beside: f64,
    /// Operations that this trial has taken.
    spent: u64,
    /// How many times as much the next rest is.
    rest: u64,
    trials: u64,
    /// Looks in a row that found a change.
    changes: u32,
}

impl Default for Ladder {
    fn default() -> Self {
        Self {
            phase: Phase::Rest { left: WARM_UP, whole: 0 },
            kept: None,
            ratios: [[None; ROUNDS]; RUNGS.len()],
            reference: REFERENCE,
            beside: f64::INFINITY,
            best_beside: f64::INFINITY,
            spent: 0,
            rest: REST.0,
            trials: 0,
            changes: 0,
        }
    }
}

impl Ladder {
    /// The rung that is to be used now; none before the first trial.
    pub(crate) fn rung(&self) -> Option<usize> {
        match self.phase {
            Phase::Rest { .. } => self.kept,
            Phase::Try(Try { reference: true, .. }) => Some(self.reference),
            Phase::Try(Try { rung, .. }) => Some(rung),
        }
    }

    /// The one that is kept between trials.
    pub(crate) fn kept(&self) -> Option<usize> {
        self.kept
    }

    pub(crate) fn is_trying(&self) -> bool {
        !matches!(self.phase, Phase::Rest { .. })
    }

    pub(crate) fn trials(&self) -> u64 {
        self.trials
    }

    /// Nanoseconds for an operation at each rung in this trial or the last, by a quiet machine; none
    /// for what was not tried.
    pub(crate) fn costs(&self) -> [Option<f64>; RUNGS.len()] {
        std::array::from_fn(|rung| Some(self.ratio(rung)? * self.best_beside))
    }

    /// What a rung costs beside the reference: the median of the rounds.
    fn ratio(&self, rung: usize) -> Option<f64> {
        if rung == self.reference {
            return self.best_beside.is_finite().then_some(1.0);
        }
        let mut ratios = [f64::INFINITY; ROUNDS];
        let mut count = 0;
        for ratio in self.ratios[rung].iter().flatten() {
            ratios[count] = *ratio;
            count += 1;
        }
        let ratios = &mut ratios[..count];
        ratios.sort_unstable_by(f64::total_cmp);
        ratios.get(count / 2).copied()
    }

    /// How much work the slice is to have that has begun.
    pub(crate) fn slice(&self) -> u64 {
        let whole = SLICE.max(16 * self.rung().map_or(0, |rung| RUNGS[rung] as u64));
        match self.phase {
            Phase::Rest { left, .. } => left.min(LOOK),
            Phase::Try(Try { settles: true, .. }) => whole / 4,
            Phase::Try(_) => whole,
        }
    }

    /// Takes note of a slice that is over, and goes on to the next.
    pub(crate) fn observe(&mut self, slice: Slice) {
        match self.phase {
            Phase::Rest { left, whole } => {
                let left = left.saturating_sub(slice.work);
                self.changes = if slice.changed { self.changes + 1 } else { 0 };
                let done = whole - left.min(whole);
                let restless = self.changes >= 2 && done >= UNREST * self.spent;
                self.phase = Phase::Rest { left, whole };
                if left == 0 || restless && self.kept.is_some() {
                    self.begin(restless);
                }
            }
            Phase::Try(at) => {
                self.spent += slice.work;
                let cost = slice.time as f64 / slice.work.max(1) as f64;
                if at.settles {
                    self.phase = Phase::Try(Try { settles: false, ..at });
                } else if at.reference {
                    self.beside = cost;
                    self.best_beside = self.best_beside.min(cost);
                    self.phase = Phase::Try(Try { reference: false, settles: true, ..at });
                } else {
                    self.ratios[at.rung][at.round] = Some(cost / self.beside);
                    self.go_on(at.round, at.rung + 1);
                }
            }
        }
    }

    fn begin(&mut self, restless: bool) {
        if restless {
            self.rest = REST.0;
        }
        self.reference = self.kept.unwrap_or(REFERENCE);
        self.ratios = [[None; ROUNDS]; RUNGS.len()];
        (self.beside, self.best_beside) = (f64::INFINITY, f64::INFINITY);
        (self.spent, self.changes) = (0, 0);
        self.go_on(0, 0);
    }

    fn best(&self) -> f64 {
        (0..RUNGS.len()).filter_map(|rung| self.ratio(rung)).fold(f64::INFINITY, f64::min)
    }

    /// To the next rung that is worth a slice, or to the end of the trial.
    fn go_on(&mut self, mut round: usize, mut rung: usize) {
        let hopeless = self.best() * HOPELESS;
        loop {
            if rung == RUNGS.len() {
                (round, rung) = (round + 1, 0);
            }
            if round == ROUNDS {
                return self.decide();
            }
            let worth = round == 0 || self.ratio(rung).is_some_and(|ratio| ratio < hopeless);
            if rung != self.reference && worth {
                self.phase = Phase::Try(Try { round, rung, reference: true, settles: true });
                return;
            }
            rung += 1;
        }
    }

    /// The smallest as good as the best; but what is kept stays while it is that.
    fn decide(&mut self) {
        let close = self.best() * CLOSE;
        let is_close = |rung: &usize| self.ratio(*rung).is_some_and(|ratio| ratio <= close);
        let stays = self.kept.filter(is_close);
        let smallest = (0..RUNGS.len()).find(is_close);
        self.rest = match stays {
            Some(_) => (self.rest * 2).min(REST.1),
            None => REST.0,
        };
        self.kept = stays.or(smallest);
        self.trials += 1;
        let whole = self.spent * self.rest;
        self.phase = Phase::Rest { left: whole, whole };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Draws that look random; the same in every run.
    struct Draws(u64);

    impl Draws {
        fn next(&mut self, below: u64) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0 % below
        }
    }

    /// A machine that is slowed down by 1.3 to 1.7 for a while, now and then, and a little all the
    /// time.
    struct Machine {
        draws: Draws,
        slow: f64,
        left: u64,
    }

    impl Machine {
        fn new(seed: u64) -> Self {
            Self { draws: Draws(seed * 2_654_435_761 + 1), slow: 1.0, left: 0 }
        }

        /// The time that an amount of work takes which costs so much.
        fn time(&mut self, work: u64, cost: f64) -> u64 {
            let mut time = 0.0;
            let mut rest = work;
            while rest > 0 {
                if self.left == 0 {
                    self.slow = match self.slow > 1.0 {
                        true => 1.0,
                        false => 1.3 + self.draws.next(41) as f64 / 100.0,
                    };
                    // From two slices to longer than a whole trial.
                    self.left = 8_000 << self.draws.next(7);
                }
                let part = rest.min(self.left);
                let jitter = 1.0 + self.draws.next(20) as f64 / 1000.0;
                time += part as f64 * cost * self.slow * jitter;
                (rest, self.left) = (rest - part, self.left - part);
            }
            time as u64
        }
    }

    type Costs = [f64; RUNGS.len()];

    /// As measured on real pipelines: where code is tiny, where it just fits, and where it does not.
    const PIPELINES: [Costs; 6] = [
        [78.0, 160.0, 110.0, 102.0, 100.0, 100.0, 103.0],
        [150.0, 180.0, 151.0, 148.0, 148.0, 149.0, 153.0],
        [300.0, 310.0, 262.0, 250.0, 246.0, 245.0, 251.0],
        [900.0, 880.0, 460.0, 350.0, 320.0, 310.0, 318.0],
        [900.0, 890.0, 870.0, 600.0, 420.0, 330.0, 300.0],
        [100.0, 100.0, 100.0, 100.0, 100.0, 100.0, 100.0],
    ];

    /// What a program of so much work cost beside the best rung: in all, and between trials.
    fn regret(ladder: &mut Ladder, machine: &mut Machine, costs: Costs, work: u64) -> (f64, f64) {
        let best = costs.iter().copied().fold(f64::INFINITY, f64::min);
        let (mut done, mut cost) = (0, 0.0);
        let mut first = true;
        while done < work {
            let of_rung = ladder.rung().map_or(costs[5], |rung| costs[rung]);
            let slice = ladder.slice();
            let time = machine.time(slice, of_rung);
            ladder.observe(Slice { work: slice, time, changed: std::mem::take(&mut first) });
            done += slice;
            cost += slice as f64 * of_rung;
        }
        (cost / (done as f64 * best), costs[ladder.kept().expect("tried")] / best)
    }

    #[test]
    fn the_regret_is_small_also_on_a_noisy_machine() {
        for (number, costs) in PIPELINES.into_iter().enumerate() {
            for seed in 1..=40 {
                let (mut ladder, mut machine) = (Ladder::default(), Machine::new(seed));
                let (all, kept) = regret(&mut ladder, &mut machine, costs, 40_000_000);
                assert!(kept <= 1.05, "pipeline {number}, seed {seed}: keeps {kept}");
                assert!(all <= 1.05, "pipeline {number}, seed {seed}: {all} in all");
            }
        }
    }

    #[test]
    fn where_nothing_is_gained_calls_run_inside_and_trials_become_rare() {
        let (mut ladder, mut machine) = (Ladder::default(), Machine::new(7));
        regret(&mut ladder, &mut machine, PIPELINES[5], 10_000_000);
        assert_eq!(ladder.kept(), Some(0));
        let before = ladder.trials();
        regret(&mut ladder, &mut machine, PIPELINES[5], 1_000_000_000);
        assert!(ladder.trials() - before < 12, "{} trials", ladder.trials());
    }

    #[test]
    fn a_change_is_noticed_and_followed() {
        let (mut ladder, mut machine) = (Ladder::default(), Machine::new(3));
        regret(&mut ladder, &mut machine, PIPELINES[0], 400_000_000);
        assert_eq!(ladder.kept(), Some(0));
        let trials = ladder.trials();
        // The mix is another one from here on; each look says so until the next trial.
        let mut done = 0;
        while ladder.trials() == trials {
            let slice = ladder.slice();
            let time = machine.time(slice, PIPELINES[3][ladder.rung().unwrap()]);
            ladder.observe(Slice { work: slice, time, changed: true });
            done += slice;
        }
        assert!(done < 20_000_000, "followed after {done} operations");
        let (_, kept) = (0, PIPELINES[3][ladder.kept().unwrap()]);
        assert!(kept <= 310.0 * 1.05, "{kept}");
    }

    #[test]
    fn trying_takes_a_few_percent_of_the_work_however_much_changes() {
        let (mut ladder, mut machine) = (Ladder::default(), Machine::new(5));
        let (mut tried, mut done) = (0, 0);
        while done < 100_000_000 {
            let slice = ladder.slice();
            let time = machine.time(slice, PIPELINES[2][ladder.rung().unwrap_or(5)]);
            tried += if ladder.is_trying() { slice } else { 0 };
            done += slice;
            ladder.observe(Slice { work: slice, time, changed: true });
        }
        assert!(tried * 100 < done * 9, "{tried} of {done}");
    }
}
