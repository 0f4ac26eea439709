//! The paired ladder: which size of cohort costs the least time for an operation, found by trying.
//!
//! Whether cohorts pay depends on how much code and data the stages touch beside the caches of this
//! machine, which no declaration says. So the sizes (the *rungs*) are tried, over and over, in short
//! slices of work, each between two slices of the same reference: what disturbs the machine for longer
//! than three slices hits all of them, and what begins or ends meanwhile shows in the two references.
//! Of the rounds count those whose references agree best, and of these the median. The smallest within
//! 3 % of the best is kept. Trying takes at most a fiftieth of the work, and less and less of it while
//! the result stays the same; it begins anew when the mix of operations or their number at a time has
//! changed. (Climbing from where one stands does not work: between 1 and 8 there is often nothing to
//! gain.)
//!
//! Nothing is tried while work waits for too long, nor where too little comes together for a size to
//! matter; and a trial is given up when the one or the other comes to be.
//!
//! This file is the law alone, on numbers; [`crate::processor::policy::cohort_tuner`] measures and applies it.

/// The sizes that are tried. At the first one calls run inside of their callers.
pub(crate) const RUNGS: [usize; 7] = [1, 8, 32, 64, 128, 256, 512];
/// Slices of each rung.
const ROUNDS: usize = 5;
/// So many of them count; odd, so that there is a middle one.
const COUNTED_ROUNDS: usize = 3;
/// Operations started in a slice, at least; large cohorts need longer ones.
const MIN_SLICE: u64 = 4096;
/// As good as the best.
const BEST_TOLERANCE: f64 = 1.03;
/// So much dearer than the best that one look is enough, or as many as count.
const HOPELESS_RATIO: f64 = 2.0;
const WORSE_RATIO: f64 = 1.2;
/// What the rungs are compared with at first: later with the one that is kept.
const INITIAL_REFERENCE: usize = 3;
/// Before the first trial, for the program to get under way.
const WARM_UP: u64 = 16_384;
/// After a trial rests at least so many times as much work as it took, and at most.
const REST_FACTOR: (u64, u64) = (50, 1024);
/// In a rest is looked so often, after so many operations, whether what is run has changed.
const CHECK_INTERVAL: u64 = 32_768;
/// Operations of a turn below which no size of cohorts matters.
const MIN_PER_TURN: f64 = 64.0;
/// So many times as many of them, or as few, are another load.
const LOAD_CHANGE_FACTOR: f64 = 4.0;

/// What a slice of work has come to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slice {
    /// Operations started.
    pub(crate) work: u64,
    /// The processor's nanoseconds.
    pub(crate) time: u64,
    /// Operations of a turn.
    pub(crate) per_turn: f64,
    /// Whether the mix or the number at a time is another than after the last trial.
    pub(crate) changed: bool,
    /// Whether work waits for too long.
    pub(crate) congested: bool,
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
    /// None behind the last one: only its reference is left.
    rung: Option<usize>,
    /// The reference's slice, before the rung's own.
    reference: bool,
    /// Its first operations, which those of the slice before still disturb.
    settles: bool,
}

/// A rung's slice beside the two of the reference around it.
#[derive(Clone, Copy, Debug)]
struct Pair {
    /// What it cost beside these.
    ratio: f64,
    /// How far these are apart.
    apart: f64,
}

/// A rung's slice behind which the reference's is still to come.
#[derive(Clone, Copy, Debug)]
struct Open {
    round: usize,
    rung: usize,
    cost: f64,
}

/// The state of one processor's ladder.
#[derive(Debug)]
pub(crate) struct CohortLadder {
    phase: Phase,
    /// The rung that is kept, once there is one.
    kept: Option<usize>,
    /// By round; none where it was not tried.
    pairs: [[Option<Pair>; ROUNDS]; RUNGS.len()],
    open: Option<Open>,
    reference: usize,
    /// Nanoseconds for an operation in the reference's last slice, and in its best of the trial.
    reference_cost: f64,
    best_reference_cost: f64,
    /// Operations of a turn in the reference's first slice.
    per_turn: f64,
    /// Operations that this trial has taken.
    spent: u64,
    /// How many times as much the next rest is.
    rest: u64,
    trials: u64,
    /// Looks in a row that found a change.
    changes: u32,
}

impl Default for CohortLadder {
    fn default() -> Self {
        Self {
            phase: Phase::Rest { left: WARM_UP, whole: 0 },
            kept: None,
            pairs: [[None; ROUNDS]; RUNGS.len()],
            open: None,
            reference: INITIAL_REFERENCE,
            reference_cost: f64::INFINITY,
            best_reference_cost: f64::INFINITY,
            per_turn: 0.0,
            spent: 0,
            rest: REST_FACTOR.0,
            trials: 0,
            changes: 0,
        }
    }
}

impl CohortLadder {
    /// The rung that is to be used now; none before the first trial.
    pub(crate) fn rung(&self) -> Option<usize> {
        match self.phase {
            Phase::Rest { .. } => self.kept,
            Phase::Try(Try { reference: false, rung: Some(rung), .. }) => Some(rung),
            Phase::Try(_) => Some(self.reference),
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
        std::array::from_fn(|rung| Some(self.ratio(rung)? * self.best_reference_cost))
    }

    /// What a rung costs beside the reference: of the rounds whose references agree best, the median.
    fn ratio(&self, rung: usize) -> Option<f64> {
        if rung == self.reference {
            return self.best_reference_cost.is_finite().then_some(1.0);
        }
        let mut pairs = [Pair { ratio: f64::INFINITY, apart: f64::INFINITY }; ROUNDS];
        let mut count = 0;
        for pair in self.pairs[rung].iter().flatten() {
            pairs[count] = *pair;
            count += 1;
        }
        pairs[..count].sort_unstable_by(|a, b| a.apart.total_cmp(&b.apart));
        let pairs = &mut pairs[..count.min(COUNTED_ROUNDS)];
        pairs.sort_unstable_by(|a, b| a.ratio.total_cmp(&b.ratio));
        pairs.get(pairs.len() / 2).map(|pair| pair.ratio)
    }

    /// How often a rung was looked at.
    fn samples(&self, rung: usize) -> usize {
        self.pairs[rung].iter().flatten().count()
    }

    /// How much work the slice is to have that has begun.
    pub(crate) fn slice(&self) -> u64 {
        let whole = MIN_SLICE.max(16 * self.rung().map_or(0, |rung| RUNGS[rung] as u64));
        match self.phase {
            Phase::Rest { left, .. } => left.min(CHECK_INTERVAL),
            Phase::Try(Try { settles: true, .. }) => whole / 4,
            Phase::Try(_) => whole,
        }
    }

    /// Takes note of a slice that is over, and goes on to the next.
    pub(crate) fn observe(&mut self, slice: Slice) {
        match self.phase {
            Phase::Rest { left, whole } => self.rest_observed(slice, left, whole),
            Phase::Try(_) if slice.congested => self.give_up(),
            Phase::Try(at) => {
                self.spent += slice.work;
                let cost = slice.time as f64 / slice.work.max(1) as f64;
                if at.settles {
                    self.phase = Phase::Try(Try { settles: false, ..at });
                } else if at.reference {
                    self.finish_reference(cost, slice.per_turn, at);
                } else if let Some(rung) = at.rung {
                    self.open = Some(Open { round: at.round, rung, cost });
                    self.advance(at.round, rung + 1);
                }
            }
        }
    }

    fn rest_observed(&mut self, slice: Slice, left: u64, whole: u64) {
        let left = left.saturating_sub(slice.work);
        self.changes = if slice.changed { self.changes + 1 } else { 0 };
        let done = whole - left.min(whole);
        let restless =
            self.kept.is_some() && self.changes >= 2 && done >= REST_FACTOR.0 * self.spent;
        self.phase = Phase::Rest { left, whole };
        if left > 0 && !restless {
            return;
        }
        if slice.congested || slice.per_turn < MIN_PER_TURN {
            // Not now: it is asked again a little later.
            self.phase = Phase::Rest { left: left.max(CHECK_INTERVAL), whole };
        } else {
            self.begin(restless);
        }
    }

    /// A slice of the reference is over: the rung's before it is between two of these now.
    fn finish_reference(&mut self, cost: f64, per_turn: f64, at: Try) {
        if let Some(Open { round, rung, cost: between }) = self.open.take() {
            let ratio = between / (self.reference_cost * cost).sqrt();
            let apart = (cost / self.reference_cost).ln().abs();
            // By a clock that stands still nothing is told apart.
            self.pairs[rung][round] = ratio.is_finite().then_some(Pair { ratio, apart });
        } else {
            self.per_turn = per_turn;
        }
        self.reference_cost = cost;
        self.best_reference_cost = self.best_reference_cost.min(cost);
        if per_turn < MIN_PER_TURN || is_different_load(per_turn, self.per_turn) {
            return self.give_up();
        }
        match at.rung {
            Some(_) => self.phase = Phase::Try(Try { reference: false, settles: true, ..at }),
            None => self.decide(),
        }
    }

    /// What is under way is no time for trials; what was kept stays.
    pub(crate) fn give_up(&mut self) {
        self.open = None;
        self.rest = REST_FACTOR.0;
        self.pause();
    }

    fn pause(&mut self) {
        let whole = self.spent.max(CHECK_INTERVAL) * self.rest;
        self.phase = Phase::Rest { left: whole, whole };
    }

    fn begin(&mut self, restless: bool) {
        if restless {
            self.rest = REST_FACTOR.0;
        }
        self.reference = self.kept.unwrap_or(INITIAL_REFERENCE);
        self.pairs = [[None; ROUNDS]; RUNGS.len()];
        (self.reference_cost, self.best_reference_cost) = (f64::INFINITY, f64::INFINITY);
        (self.spent, self.changes, self.open) = (0, 0, None);
        self.advance(0, 0);
    }

    fn best(&self) -> f64 {
        (0..RUNGS.len()).filter_map(|rung| self.ratio(rung)).fold(f64::INFINITY, f64::min)
    }

    /// To the next rung that is worth a slice, or to the last of the trial.
    fn advance(&mut self, mut round: usize, mut rung: usize) {
        let best = self.best();
        loop {
            if rung == RUNGS.len() {
                (round, rung) = (round + 1, 0);
            }
            if round == ROUNDS {
                let last = Try { round, rung: None, reference: true, settles: true };
                self.phase = Phase::Try(last);
                return;
            }
            let bound =
                if self.samples(rung) < COUNTED_ROUNDS { HOPELESS_RATIO } else { WORSE_RATIO };
            let worth = self.ratio(rung).is_none_or(|ratio| ratio <= best * bound);
            if rung != self.reference && worth {
                let next = Try { round, rung: Some(rung), reference: true, settles: true };
                self.phase = Phase::Try(next);
                return;
            }
            rung += 1;
        }
    }

    /// The smallest as good as the best; but what is kept stays while it is that.
    fn decide(&mut self) {
        if self.pairs.as_flattened().iter().all(Option::is_none) {
            return self.give_up();
        }
        let close = self.best() * BEST_TOLERANCE;
        let is_close = |rung: &usize| self.ratio(*rung).is_some_and(|ratio| ratio <= close);
        let stays = self.kept.filter(is_close);
        let smallest = (0..RUNGS.len()).find(is_close);
        self.rest = match stays {
            Some(_) => (self.rest * 2).min(REST_FACTOR.1),
            None => REST_FACTOR.0,
        };
        self.kept = stays.or(smallest);
        self.trials += 1;
        self.pause();
    }
}

/// Whether so many operations of a turn are another load than so many.
pub(crate) fn is_different_load(per_turn: f64, known: f64) -> bool {
    let grown = per_turn / known.max(f64::MIN_POSITIVE);
    !(1.0 / LOAD_CHANGE_FACTOR..=LOAD_CHANGE_FACTOR).contains(&grown)
}

#[cfg(all(test, not(loom)))]
mod tests;
