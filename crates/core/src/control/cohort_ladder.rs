//! The cohort ladder finds the cohort size with the lowest cost per operation by paired trials.
//!
//! The benefit of cohorts depends on the size of the stages' code and data relative to the machine's caches, which no
//! declaration contains. The ladder therefore measures each size (each *rung*) repeatedly in short slices of work. Each
//! slice runs between two slices of a common reference rung. A disturbance longer than three slices affects all of
//! them; a shorter one makes the two reference slices differ. For each rung, only the rounds whose references agree
//! best count, and the result is their median ratio. The ladder keeps the smallest rung within 3 % of the best. Trials
//! take at most 2 % of the work, and less while the result stays the same. A new trial starts early when the mix of
//! operations or their number per turn has changed. (Hill climbing from the current rung does not work, because size 8
//! is often no better than size 1 although larger sizes are.)
//!
//! No trial starts while the queue delay is too long, or while too few operations run per turn for the size to matter.
//! A running trial is aborted when either happens.
//!
//! This file is the pure control law; [`crate::processor::policy::schedule::cohort_tuner`] measures and applies
//! it.

/// The cohort sizes to try. On the first rung, calls run inline in their callers.
pub(crate) const RUNGS: [usize; 7] = [1, 8, 32, 64, 128, 256, 512];
/// The number of slices per rung in a trial.
const ROUNDS: usize = 5;
/// The number of slices per rung that count. It is odd, so that there is a median.
const COUNTED_ROUNDS: usize = 3;
/// The minimum number of operations started in a slice; large cohorts need longer slices.
const MIN_SLICE: u64 = 4096;
/// Rungs within this factor of the lowest cost count as equally good.
const BEST_TOLERANCE: f64 = 1.03;
/// A rung that costs this many times the best is dropped after its first slice. For the lower factor, it is dropped
/// after [`COUNTED_ROUNDS`] slices.
const HOPELESS_RATIO: f64 = 2.0;
const WORSE_RATIO: f64 = 1.2;
/// The reference rung of the first trial; later trials use the kept rung.
const INITIAL_REFERENCE: usize = 3;
/// The number of operations to run before the first trial, so that the program has warmed up.
const WARM_UP: u64 = 16_384;
/// The minimum and maximum rest after a trial, as a multiple of the trial's work.
const REST_FACTOR: (u64, u64) = (50, 1024);
/// The number of operations between two checks for a changed load during a rest.
const CHECK_INTERVAL: u64 = 32_768;
/// The number of operations per turn below which the cohort size does not matter.
const MIN_PER_TURN: f64 = 64.0;
/// The load counts as changed if the operations per turn grow or shrink by this factor.
const LOAD_CHANGE_FACTOR: f64 = 4.0;

/// The measurements of one slice of work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slice {
    /// The number of operations started.
    pub(crate) work: u64,
    /// The CPU time spent, in nanoseconds.
    pub(crate) time: u64,
    /// Operations per turn.
    pub(crate) per_turn: f64,
    /// Whether the mix of operations or their number per turn differs from that of the last trial.
    pub(crate) changed: bool,
    /// Whether the queue delay is too long.
    pub(crate) congested: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Resting until `remaining` more operations have run, out of `length`.
    Rest {
        remaining: u64,
        length: u64,
    },
    TrialSlice(TrialSlice),
}

/// A slice of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TrialSlice {
    round: usize,
    /// The rung to measure; `None` for the reference slice that ends the trial.
    rung: Option<usize>,
    /// Whether this is the reference slice that precedes the rung's slice.
    reference: bool,
    /// Whether this is the settling part of the slice, which the previous rung still affects.
    is_settling: bool,
}

/// A rung's slice, compared with the two reference slices around it.
#[derive(Clone, Copy, Debug)]
struct Pair {
    /// The cost of the rung divided by the cost of the reference.
    ratio: f64,
    /// The difference between the two reference slices, as the absolute logarithm of their ratio.
    reference_error: f64,
}

/// A rung's slice whose second reference slice has not run yet.
#[derive(Clone, Copy, Debug)]
struct OpenPair {
    round: usize,
    rung: usize,
    cost: f64,
}

/// The cohort ladder of one processor.
#[derive(Debug)]
pub(crate) struct CohortLadder {
    phase: Phase,
    /// The rung in use between trials; `None` before the first trial ends.
    chosen: Option<usize>,
    /// The results by round; `None` if the rung was not measured in that round.
    pairs: [[Option<Pair>; ROUNDS]; RUNGS.len()],
    open: Option<OpenPair>,
    reference: usize,
    /// Nanoseconds per operation in the last reference slice, and in the fastest one of the trial.
    reference_cost: f64,
    best_reference_cost: f64,
    /// Operations per turn in the first reference slice of the trial.
    per_turn: f64,
    /// The number of operations run in this trial.
    trial_work: u64,
    /// The length of the next rest, as a multiple of the trial's work.
    rest: u64,
    trials: u64,
    /// Consecutive checks that found a changed load.
    changed_checks: u32,
}

impl Default for CohortLadder {
    fn default() -> Self {
        Self {
            phase: Phase::Rest { remaining: WARM_UP, length: 0 },
            chosen: None,
            pairs: [[None; ROUNDS]; RUNGS.len()],
            open: None,
            reference: INITIAL_REFERENCE,
            reference_cost: f64::INFINITY,
            best_reference_cost: f64::INFINITY,
            per_turn: 0.0,
            trial_work: 0,
            rest: REST_FACTOR.0,
            trials: 0,
            changed_checks: 0,
        }
    }
}

impl CohortLadder {
    /// The rung to use now; `None` before the first trial.
    pub(crate) fn rung(&self) -> Option<usize> {
        match self.phase {
            Phase::Rest { .. } => self.chosen,
            Phase::TrialSlice(TrialSlice { reference: false, rung: Some(rung), .. }) => Some(rung),
            Phase::TrialSlice(_) => Some(self.reference),
        }
    }

    /// The rung in use between trials.
    pub(crate) fn chosen(&self) -> Option<usize> {
        self.chosen
    }

    pub(crate) fn is_trying(&self) -> bool {
        !matches!(self.phase, Phase::Rest { .. })
    }

    pub(crate) fn trials(&self) -> u64 {
        self.trials
    }

    /// Estimated nanoseconds per operation on an undisturbed machine, by rung, in the current or last trial; `None` for
    /// rungs that were not measured.
    pub(crate) fn costs(&self) -> [Option<f64>; RUNGS.len()] {
        std::array::from_fn(|rung| Some(self.ratio(rung)? * self.best_reference_cost))
    }

    /// The cost of a rung relative to the reference: the median over the rounds whose references agree
    /// best.
    fn ratio(&self, rung: usize) -> Option<f64> {
        if rung == self.reference {
            return self.best_reference_cost.is_finite().then_some(1.0);
        }
        let mut pairs = [Pair { ratio: f64::INFINITY, reference_error: f64::INFINITY }; ROUNDS];
        let mut count = 0;
        for pair in self.pairs[rung].iter().flatten() {
            pairs[count] = *pair;
            count += 1;
        }
        pairs[..count].sort_unstable_by(|a, b| a.reference_error.total_cmp(&b.reference_error));
        let pairs = &mut pairs[..count.min(COUNTED_ROUNDS)];
        pairs.sort_unstable_by(|a, b| a.ratio.total_cmp(&b.ratio));
        pairs.get(pairs.len() / 2).map(|pair| pair.ratio)
    }

    /// The number of slices measured for a rung.
    fn samples(&self, rung: usize) -> usize {
        self.pairs[rung].iter().flatten().count()
    }

    /// The length of the current slice, in operations started.
    pub(crate) fn slice(&self) -> u64 {
        let length = MIN_SLICE.max(16 * self.rung().map_or(0, |rung| RUNGS[rung] as u64));
        match self.phase {
            Phase::Rest { remaining, .. } => remaining.min(CHECK_INTERVAL),
            Phase::TrialSlice(TrialSlice { is_settling: true, .. }) => length / 4,
            Phase::TrialSlice(_) => length,
        }
    }

    /// Records a finished slice and moves on to the next.
    pub(crate) fn observe(&mut self, slice: Slice) {
        match self.phase {
            Phase::Rest { remaining, length } => self.observe_rest(slice, remaining, length),
            Phase::TrialSlice(_) if slice.congested => self.postpone(),
            Phase::TrialSlice(at) => {
                self.trial_work += slice.work;
                let cost = slice.time as f64 / slice.work.max(1) as f64;
                if at.is_settling {
                    self.phase = Phase::TrialSlice(TrialSlice { is_settling: false, ..at });
                } else if at.reference {
                    self.finish_reference(cost, slice.per_turn, at);
                } else if let Some(rung) = at.rung {
                    self.open = Some(OpenPair { round: at.round, rung, cost });
                    self.advance(at.round, rung + 1);
                }
            }
        }
    }

    fn observe_rest(&mut self, slice: Slice, remaining: u64, length: u64) {
        let remaining = remaining.saturating_sub(slice.work);
        self.changed_checks = if slice.changed { self.changed_checks + 1 } else { 0 };
        let done = length - remaining.min(length);
        let load_changed = self.chosen.is_some()
            && self.changed_checks >= 2
            && done >= REST_FACTOR.0 * self.trial_work;
        self.phase = Phase::Rest { remaining, length };
        if remaining > 0 && !load_changed {
            return;
        }
        if slice.congested || slice.per_turn < MIN_PER_TURN {
            // Too congested or too little load: check again later.
            self.phase = Phase::Rest { remaining: remaining.max(CHECK_INTERVAL), length };
        } else {
            self.start_trial(load_changed);
        }
    }

    /// Records a reference slice, which completes the pair of the rung's slice before it.
    fn finish_reference(&mut self, cost: f64, per_turn: f64, at: TrialSlice) {
        if let Some(OpenPair { round, rung, cost: between }) = self.open.take() {
            let ratio = between / (self.reference_cost * cost).sqrt();
            let reference_error = (cost / self.reference_cost).ln().abs();
            // The ratio is not finite if the clock did not advance.
            self.pairs[rung][round] = ratio.is_finite().then_some(Pair { ratio, reference_error });
        } else {
            self.per_turn = per_turn;
        }
        self.reference_cost = cost;
        self.best_reference_cost = self.best_reference_cost.min(cost);
        if per_turn < MIN_PER_TURN || is_different_load(per_turn, self.per_turn) {
            return self.postpone();
        }
        match at.rung {
            Some(_) => {
                self.phase =
                    Phase::TrialSlice(TrialSlice { reference: false, is_settling: true, ..at })
            }
            None => self.decide(),
        }
    }

    /// Aborts the trial, or postpones the next one. The kept rung stays in use.
    pub(crate) fn postpone(&mut self) {
        self.open = None;
        self.rest = REST_FACTOR.0;
        self.pause();
    }

    fn pause(&mut self) {
        let length = self.trial_work.max(CHECK_INTERVAL) * self.rest;
        self.phase = Phase::Rest { remaining: length, length };
    }

    fn start_trial(&mut self, load_changed: bool) {
        if load_changed {
            self.rest = REST_FACTOR.0;
        }
        self.reference = self.chosen.unwrap_or(INITIAL_REFERENCE);
        self.pairs = [[None; ROUNDS]; RUNGS.len()];
        (self.reference_cost, self.best_reference_cost) = (f64::INFINITY, f64::INFINITY);
        (self.trial_work, self.changed_checks, self.open) = (0, 0, None);
        self.advance(0, 0);
    }

    fn best(&self) -> f64 {
        (0..RUNGS.len()).filter_map(|rung| self.ratio(rung)).fold(f64::INFINITY, f64::min)
    }

    /// Moves on to the next rung worth a slice, or to the last slice of the trial.
    fn advance(&mut self, mut round: usize, mut rung: usize) {
        let best = self.best();
        loop {
            if rung == RUNGS.len() {
                (round, rung) = (round + 1, 0);
            }
            if round == ROUNDS {
                let last = TrialSlice { round, rung: None, reference: true, is_settling: true };
                self.phase = Phase::TrialSlice(last);
                return;
            }
            let bound =
                if self.samples(rung) < COUNTED_ROUNDS { HOPELESS_RATIO } else { WORSE_RATIO };
            let is_candidate = self.ratio(rung).is_none_or(|ratio| ratio <= best * bound);
            if rung != self.reference && is_candidate {
                let next =
                    TrialSlice { round, rung: Some(rung), reference: true, is_settling: true };
                self.phase = Phase::TrialSlice(next);
                return;
            }
            rung += 1;
        }
    }

    /// Ends the trial. If the kept rung is about as good as the best, it stays; otherwise the smallest rung that is
    /// about as good as the best becomes the kept rung.
    fn decide(&mut self) {
        if self.pairs.as_flattened().iter().all(Option::is_none) {
            return self.postpone();
        }
        let close = self.best() * BEST_TOLERANCE;
        let is_close = |rung: &usize| self.ratio(*rung).is_some_and(|ratio| ratio <= close);
        let unchanged = self.chosen.filter(is_close);
        let smallest = (0..RUNGS.len()).find(is_close);
        self.rest = match unchanged {
            Some(_) => (self.rest * 2).min(REST_FACTOR.1),
            None => REST_FACTOR.0,
        };
        self.chosen = unchanged.or(smallest);
        self.trials += 1;
        self.pause();
    }
}

/// Whether `per_turn` differs enough from the `known` number of operations per turn to count as a
/// different load.
pub(crate) fn is_different_load(per_turn: f64, known: f64) -> bool {
    let factor = per_turn / known.max(f64::MIN_POSITIVE);
    !(1.0 / LOAD_CHANGE_FACTOR..=LOAD_CHANGE_FACTOR).contains(&factor)
}

#[cfg(all(test, not(loom)))]
mod tests;
