//! The steps that are possible in a state, and their execution.

use phalanx_core::World as _;

use super::Bounds;
use super::enumerated_run::EnumeratedRun;
use super::order::Parts;
use crate::blocking::workers::{self, WorkerStep};
use crate::sim::oracle;
use crate::sim::trace::Step;

/// A step that can be taken now.
#[derive(Clone, Copy, Debug)]
pub(super) enum Action {
    Receive(usize),
    Timers(usize),
    Run {
        processor: usize,
        stage: usize,
    },
    Client(usize),
    Worker(WorkerStep),
    /// A processor without work sleeps or ends. This is a separate step only if the time matters.
    Sleep(usize),
    Wake(usize, &'static str),
    /// Time passes although a processor could run.
    TimePasses(u64),
}

impl EnumeratedRun<'_> {
    pub(super) fn has_work(&self, processor: usize) -> bool {
        let now = self.run.outside.now();
        let sim = &self.run.processors[processor];
        self.may_receive(processor)
            || sim.step(|steps, _| steps.next_timer().is_some_and(|at| at <= now))
            || sim.step(|steps, _| steps.ready().next().is_some())
    }

    fn may_receive(&self, processor: usize) -> bool {
        let sim = &self.run.processors[processor];
        let expired =
            sim.io.next_expiry().is_some_and(|at| at.as_nanos() as u64 <= self.run.outside.now());
        expired
            || sim.processor().stepping().has_messages()
            || sim.io.driver(|driver| driver.is_ready())
    }

    pub(super) fn actions(&self, bounds: &Bounds) -> Vec<Action> {
        let (now, count) = (self.run.outside.now(), self.run.processors.len());
        let mut all = Vec::new();
        for processor in (0..count).map(|n| (self.last + n) % count) {
            let sim = &self.run.processors[processor];
            if self.sleeps_matter {
                all.extend(sim.wakes(now).map(|reason| Action::Wake(processor, reason)));
                if !sim.has_ended && sim.asleep.is_none() && !self.has_work(processor) {
                    all.push(Action::Sleep(processor));
                }
            }
            if sim.has_ended || sim.asleep.is_some() {
                continue;
            }
            if self.may_receive(processor) {
                all.push(Action::Receive(processor));
            }
            sim.step(|steps, _| {
                if steps.next_timer().is_some_and(|at| at <= now) {
                    all.push(Action::Timers(processor));
                }
                all.extend(steps.ready().map(|stage| Action::Run { processor, stage }));
            });
        }
        let clients = self.run.clients.iter().enumerate();
        let changes = self.run.outside.changes();
        all.extend(
            clients.filter(|(_, task)| task.may_run(changes)).map(|(n, _)| Action::Client(n)),
        );
        workers::steps(now, |step| all.push(Action::Worker(step)));
        if bounds.early_timers && !all.is_empty() {
            all.extend(self.next_event().map(Action::TimePasses));
        }
        all
    }

    /// The time of the next event, including timers of processors that are awake.
    fn next_event(&self) -> Option<u64> {
        let timers = self.run.processors.iter().filter(|sim| sim.asleep.is_none());
        let timers = timers.filter_map(|sim| sim.step(|steps, _| steps.next_timer()));
        let now = self.run.outside.now();
        timers.chain(self.run.next_event()).filter(|at| (now + 1..u64::MAX).contains(at)).min()
    }

    /// Takes a step. Returns its description, and the parts of the world that it touched.
    pub(super) fn take(
        &mut self,
        action: Action,
        bounds: &Bounds,
    ) -> Result<([u64; 3], Parts), String> {
        match action {
            Action::Receive(processor) => Ok(self.receive(processor)),
            Action::Timers(processor) => {
                self.last = processor;
                self.run.processors[processor].step(|steps, world| steps.timers(world));
                self.run.trace.record(Step::Timers { processor });
                // A foreign waker runs code of the program.
                let parts = Parts::processor(processor).with(Parts::PROGRAM);
                Ok(([5, processor as u64, 0], parts))
            }
            Action::Run { processor, stage } => self.run_stage(processor, stage, bounds),
            Action::Client(client) => {
                let task = &mut self.run.clients[client];
                task.poll(&self.run.outside);
                let finished = task.is_finished();
                self.run.trace.record(Step::Polled { client, finished });
                Ok(([7, client as u64, 0], Parts::ALL))
            }
            Action::Worker(step) => {
                workers::take(step, self.run.outside.now(), None);
                self.run.trace.record(Step::Blocked { step });
                let words = match step {
                    WorkerStep::Begin(pool) => [8, pool as u64, 0],
                    WorkerStep::Finish(pool, call) => [9, pool as u64, call as u64],
                };
                Ok((words, Parts::ALL))
            }
            Action::Sleep(processor) => {
                self.run.idle_turn(processor);
                Ok(([11, processor as u64, 0], Parts::ALL))
            }
            Action::Wake(processor, reason) => {
                self.run.wake(processor, reason);
                Ok(([12, processor as u64, 0], Parts::ALL))
            }
            Action::TimePasses(until) => {
                self.run.advance_to(until);
                Ok(([10, until, 0], Parts::ALL))
            }
        }
    }

    fn receive(&mut self, processor: usize) -> ([u64; 3], Parts) {
        self.last = processor;
        let sim = &self.run.processors[processor];
        let mut parts = Parts::processor(processor).with(Parts::mailbox(processor));
        if sim.io.in_flight() > 0 {
            parts = parts.with(Parts::OUTSIDE).with(Parts::PROGRAM);
        }
        if sim.processor().stepping().messages_have_effects() {
            parts = parts.with(Parts::PROGRAM);
        }
        let any = sim.step(|steps, world| {
            let any = steps.receive(world);
            steps.flush();
            any
        });
        self.run.trace.record(Step::Received { processor, any });
        ([4, processor as u64, 0], parts)
    }

    /// Runs a cohort, and sends its messages and its requests.
    fn run_stage(
        &mut self,
        processor: usize,
        stage: usize,
        bounds: &Bounds,
    ) -> Result<([u64; 3], Parts), String> {
        self.last = processor;
        let sim = &self.run.processors[processor];
        oracle::check_queue(processor, sim, stage)?;
        let queued = sim.processor().check_queue(stage).unwrap_or(0);
        let at_most = 1 + self.choices.choose(queued.clamp(1, bounds.cohort.max(1)));
        let choices = &mut *self.choices;
        let operations = sim.step(|steps, world| {
            let ran = steps.run(stage, at_most, |options| choices.choose(options), world);
            steps.flush();
            world.submit();
            ran
        });
        self.run.trace.record(Step::Ran { processor, stage, operations });
        oracle::check_invariants(processor, sim)?;
        let own = Parts::processor(processor).with(Parts::mailbox(processor));
        let parts = own.with(Parts::PROGRAM).with(Parts::OUTSIDE);
        Ok(([6, processor as u64, stage as u64], parts))
    }
}
