//! A model of processors and requests for testing the scaling law. Each processor has its own clock.
//!
//! A processor runs a cohort of all requests that have arrived, up to a maximum, which costs a fixed time and a time
//! per request. If the processor was asleep, waking costs time as well. Requests are distributed among the active
//! processors, except those for the hot key, which processor 0 serves.

use std::collections::VecDeque;

use super::{ProcessorLoad, Scaling, ScalingReason};

pub(super) const MS: u64 = 1_000_000;
pub(super) const SECOND: u64 = 1_000 * MS;
/// The length of an interval, unless a processor is saturated.
const INTERVAL: u64 = 100 * MS;
/// The time without a pause after which a processor counts as saturated: 20 requests.
const SATURATED: u64 = 20 * (COHORT + REQUEST);
/// The time between two checks for saturated processors.
const CHECK_INTERVAL: u64 = MS;
const MAX_COHORT: usize = 64;
/// The fixed time of a cohort, the time per request, the time of a wake-up, and the time of a step per processor that
/// starts or stops.
const COHORT: u64 = 250_000;
pub(super) const REQUEST: u64 = 500_000;
const WAKE: u64 = 50_000;
const MOVE: u64 = 500_000;

/// A part of a trace with constant load.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    pub(super) seconds: f64,
    /// Requests per second, in units of what one processor can do with the largest cohorts.
    pub(super) load: f64,
    /// The fraction of the requests that have the hot key.
    pub(super) hot: f64,
}

#[derive(Default)]
struct Clock {
    queue: VecDeque<u64>,
    free_at: u64,
    /// The busy time of this interval, and the part of it that was spent on the hot key.
    busy: u64,
    hot: u64,
    /// The time at which the processor was last idle.
    idle_at: u64,
}

/// The result of a run.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// The integral of the number of active processors, in nanoseconds.
    pub(super) seats: f64,
    /// The busy time of all processors, in nanoseconds.
    pub(super) busy: u64,
    pub(super) latency: Vec<u64>,
    /// The times, numbers and reasons of the steps.
    pub(super) steps: Vec<(u64, usize, ScalingReason)>,
}

impl Outcome {
    pub(super) fn p99(&mut self) -> u64 {
        self.latency.sort_unstable();
        self.latency.get(self.latency.len() * 99 / 100).copied().unwrap_or(0)
    }
}

pub(super) struct Model {
    processors: Vec<Clock>,
    active: usize,
    law: Option<Scaling>,
    random: u64,
    interval: u64,
    next_check: u64,
    outcome: Outcome,
}

impl Model {
    /// All processors stay active.
    pub(super) fn fixed(processors: usize, seed: u64) -> Self {
        let mut model = Self {
            processors: Vec::new(),
            active: processors,
            law: None,
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            interval: 0,
            next_check: 0,
            outcome: Outcome::default(),
        };
        model.processors.resize_with(processors, Clock::default);
        model
    }

    pub(super) fn scaled(min: usize, max: usize, seed: u64) -> Self {
        Self { law: Some(Scaling::new(min, max, 0)), ..Self::fixed(max, seed) }
    }

    fn uniform(&mut self) -> f64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        ((self.random >> 11) as f64 + 1.0) / (1u64 << 53) as f64
    }

    pub(super) fn run(mut self, trace: &[Segment]) -> Outcome {
        let (mut begin, mut now) = (0, 0);
        for segment in trace {
            let end = begin + (segment.seconds * SECOND as f64) as u64;
            let gap = REQUEST as f64 / segment.load;
            loop {
                now += (-self.uniform().ln() * gap) as u64 + 1;
                if now > end {
                    break;
                }
                self.arrive(now, segment.hot);
            }
            (begin, now) = (end, end);
        }
        self.interval_over(now);
        self.outcome
    }

    fn arrive(&mut self, now: u64, hot: f64) {
        if now >= self.next_check {
            self.check_saturation(now);
        }
        let is_hot = hot > 0.0 && self.uniform() < hot;
        let chosen = if is_hot { 0 } else { self.less_loaded(now) };
        // The lowest bit marks requests for the hot key.
        self.processors[chosen].queue.push_back(now & !1 | u64::from(is_hot));
    }

    /// The better of two random processors.
    fn less_loaded(&mut self, now: u64) -> usize {
        let mut draw = || (self.uniform() * self.active as f64) as usize % self.active;
        let (one, other) = (draw(), draw());
        let mut free_at = |index| {
            self.run_cohorts(index, now);
            self.processors[index].free_at
        };
        if free_at(other) < free_at(one) { other } else { one }
    }

    /// Ends the interval if it is long enough, or if a processor is saturated.
    fn check_saturation(&mut self, now: u64) {
        (0..self.processors.len()).for_each(|index| self.run_cohorts(index, now));
        self.next_check = now + CHECK_INTERVAL;
        let since = now - self.interval;
        let mut active = self.processors[..self.active].iter();
        if since >= INTERVAL || since >= SATURATED && active.any(|clock| clock.is_saturated(now)) {
            self.interval_over(now);
        }
    }

    fn run_cohorts(&mut self, index: usize, until: u64) {
        let clock = &mut self.processors[index];
        while let Some(&first) = clock.queue.front()
            && clock.free_at.max(first) <= until
        {
            let was_asleep = clock.free_at < first;
            let start = clock.free_at.max(first);
            let cost = if was_asleep { WAKE } else { 0 };
            let here = clock.queue.iter().take(MAX_COHORT);
            let size = here.take_while(|arrival| **arrival <= start).count();
            let cost = cost + COHORT + REQUEST * size as u64 - COHORT * size as u64 / 64;
            let end = start + cost;
            for arrival in clock.queue.drain(..size) {
                self.outcome.latency.push(end - arrival);
                clock.hot += if arrival & 1 == 1 { cost / size as u64 } else { 0 };
            }
            if was_asleep {
                clock.idle_at = start;
            }
            (clock.free_at, clock.busy) = (end, clock.busy + cost);
            self.outcome.busy += cost;
        }
    }

    fn interval_over(&mut self, now: u64) {
        let length = now - self.interval;
        self.interval = now;
        self.outcome.seats += (length * self.active as u64) as f64;
        let loads: Vec<_> =
            self.processors.iter_mut().map(|clock| clock.load(now, length)).collect();
        let Some(law) = &mut self.law else { return };
        let step = law.interval_over(now, &loads);
        assert_eq!(step.active, law.active());
        let before = std::mem::replace(&mut self.active, step.active);
        if step.active != before {
            self.outcome.steps.push((now, step.active, step.reason));
            for clock in &mut self.processors[before.min(step.active)..before.max(step.active)] {
                (clock.free_at, clock.busy) = (clock.free_at.max(now) + MOVE, clock.busy + MOVE);
                self.outcome.busy += MOVE;
            }
        }
    }
}

impl Clock {
    fn is_saturated(&self, now: u64) -> bool {
        self.free_at > now && now.saturating_sub(self.idle_at) > SATURATED
    }

    /// Ends an interval. The rest of a cohort that runs beyond the end counts for the next one.
    fn load(&mut self, now: u64, length: u64) -> ProcessorLoad {
        let remaining = self.free_at.saturating_sub(now).min(self.busy);
        let hot_remaining = self.hot * remaining / self.busy.max(1);
        let part = |time: u64| (1000 * time / length).min(1000) as u32;
        let (load, hot) = (part(self.busy - remaining), part(self.hot - hot_remaining));
        (self.busy, self.hot) = (remaining, hot_remaining);
        ProcessorLoad { load, indivisible: hot, is_saturated: self.is_saturated(now) }
    }
}
