//! One run of an exhaustive simulation, in which each step is a choice among all possible steps.

use super::choices::Choices;
use super::order::{Order, Parts};
use super::{Bounds, VisitedStates};
use crate::sim::scheduler::{self, Run};
use crate::sim::world::World;

/// The end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    AtRest,
    /// The run reached a state from which an earlier run has continued.
    Merged,
    /// The run reached the maximum number of steps.
    StepLimit,
}

pub(super) fn run(
    world: World,
    bounds: &Bounds,
    choices: &mut Choices,
    visited: &mut VisitedStates,
) -> Result<Outcome, String> {
    let (run, outcome) = scheduler::run_with(world, |run| {
        let order = Order::new(run.processors.len());
        // A step of a processor that takes operations from others affects more than its own parts.
        let shared = run.processors.iter().any(|sim| sim.step(|steps, _| steps.shares_queues()));
        let merges = bounds.merges && !shared && run.processors.len() <= Parts::MAX_PROCESSORS;
        let sleeps_matter =
            run.processors.iter().any(|sim| sim.step(|steps, _| steps.takes_over()));
        let run = EnumeratedRun { run, choices, order, last: 0, merges, sleeps_matter };
        run.until_rest(bounds, visited)
    })?;
    if outcome == Outcome::AtRest {
        run.end()?;
    }
    Ok(outcome)
}

/// The state of a run.
pub(super) struct EnumeratedRun<'r> {
    pub(super) run: &'r mut Run,
    pub(super) choices: &'r mut Choices,
    order: Order,
    /// The processor that took the last step; the default choice continues with it.
    pub(super) last: usize,
    merges: bool,
    /// Whether processors take partitions over from sleeping ones, so that falling asleep is not independent of other
    /// steps.
    pub(super) sleeps_matter: bool,
}

impl EnumeratedRun<'_> {
    fn until_rest(
        mut self,
        bounds: &Bounds,
        visited: &mut VisitedStates,
    ) -> Result<Outcome, String> {
        loop {
            self.take_forced_steps();
            if self.run.is_over() {
                return Ok(Outcome::AtRest);
            }
            if self.run.steps == bounds.steps {
                return Ok(Outcome::StepLimit);
            }
            if self.merges && self.choices.is_beyond_given() && !self.is_new(bounds, visited) {
                return Ok(Outcome::Merged);
            }
            self.run.steps += 1;
            self.step(bounds)?;
            self.run.check_step()?;
        }
    }

    /// Records the state. Returns false if an earlier run reached it in as few steps and with as few deviations.
    fn is_new(&self, bounds: &Bounds, visited: &mut VisitedStates) -> bool {
        let mut hash = self.order.hash();
        let mut deviations = 0;
        if bounds.deviations.is_some() {
            // The default choice depends on the last processor, and the remaining choices on the deviations.
            hash ^= (self.last as u64 + 1) << 32;
            deviations = self.choices.deviations();
        }
        let known = visited.get(&hash);
        if known.is_some_and(|known| known.0 <= deviations && known.1 <= self.run.steps) {
            return false;
        }
        visited.insert(hash, (deviations, self.run.steps));
        true
    }

    /// Takes the steps that are independent of all others: wakes processors with work, and parks idle ones, unless
    /// processors take partitions over from sleeping ones.
    fn take_forced_steps(&mut self) {
        if self.run.check_drain() {
            self.order.record([1], Parts::ALL);
        }
        // A processor that ends or sleeps may wake another one.
        while (0..self.run.processors.len()).any(|processor| self.take_forced_step(processor)) {}
    }

    /// Takes such a step of one processor. Returns whether there was one.
    fn take_forced_step(&mut self, processor: usize) -> bool {
        let sim = &self.run.processors[processor];
        if sim.has_ended {
            return false;
        }
        if self.sleeps_matter {
            if sim.asleep.is_none() && !self.has_work(processor) {
                sim.step(|steps, _| steps.flush());
            }
            return false;
        }
        if let Some(reason) = sim.wakes(self.run.outside.now()) {
            self.run.wake(processor, reason);
            return true;
        }
        if sim.asleep.is_some() || self.has_work(processor) {
            return false;
        }
        self.run.idle_turn(processor);
        let sim = &self.run.processors[processor];
        if sim.has_ended {
            self.order.record([2, processor as u64], Parts::ALL);
        }
        sim.has_ended || sim.asleep.is_some()
    }

    fn step(&mut self, bounds: &Bounds) -> Result<(), String> {
        let actions = self.actions(bounds);
        if actions.is_empty() {
            self.run.on_idle(0)?;
            self.order.record([3], Parts::ALL);
            return Ok(());
        }
        let before = (self.run.outside.now(), self.run.control.phase(), self.choices.depth());
        let mail = self.message_counts();
        let action = actions[self.choices.choose(actions.len())];
        let (words, mut parts) = self.take(action, bounds)?;
        for (number, (before, after)) in mail.into_iter().zip(self.message_counts()).enumerate() {
            if before != after {
                parts = parts.with(Parts::mailbox(number));
            }
        }
        // The choices within the step. The choice of the action itself is encoded in its words.
        let inner = self.choices.since(before.2).skip(usize::from(actions.len() > 1));
        let inner: Vec<_> = inner.map(|taken| taken as u64).collect();
        if (self.run.outside.now(), self.run.control.phase()) != (before.0, before.1) {
            parts = Parts::ALL;
        }
        self.order.record(words.into_iter().chain(inner), parts);
        Ok(())
    }

    /// The number of messages in each mailbox.
    fn message_counts(&self) -> Vec<usize> {
        self.run.processors.iter().map(|sim| sim.processor().stepping().message_count()).collect()
    }
}
