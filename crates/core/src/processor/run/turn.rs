//! The loop of a processor: reap I/O, sweep forward, submit I/O, sweep backward, submit I/O. An idle processor spins
//! briefly and then parks.
//!
//! Stages are visited in the order of their declaration and then in reverse, because requests travel down the stages
//! and their results travel up (tr2001 §5.1.2). In the paper, idle processors sleep for increasing times; here they
//! park in their driver and are woken.

use crate::control::adaptive_spin::AdaptiveSpin;
use crate::mailbox::mailbox::Inbox;
use crate::panic::catch_panic;
use crate::processor::processor::Processor;
use crate::program::program::Phase;
use crate::stage_set::{MAX_STAGES, StageSet};
use crate::world::World;

/// The number of turns between two publications of the gauges, which are also published before each sleep.
const TURNS_PER_PUBLISH: u64 = 256;

/// The number of turns for which a processor waits for another processor before it yields its core.
const WAITS_BEFORE_YIELD: u32 = 64;

/// The result of one turn of the loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// Operations run.
    pub ran: usize,
    /// Whether the turn received any completion or message.
    pub received: bool,
}

impl Processor {
    /// Runs until the program has drained or ended and no work is left. `spin` is the maximum time in nanoseconds for
    /// which an idle processor polls before it parks. It polls for less, or not at all, if polling costs more CPU time
    /// than the sleeps that it avoids.
    pub fn run(&self, world: &impl World, spin: u64) {
        self.enter(|| {
            let mut last_work = self.current.set_now(world.now());
            let mut spinning = AdaptiveSpin::new(spin);
            // The last time at which the processor was idle, if it has been.
            let mut idle_until: Option<u64> = None;
            let mut ended = false;
            // The number of turns since the last work in which only another processor could make progress.
            let mut waits = 0;
            let mut operations = 0;
            loop {
                // This comes before the turn, whose invocations may take partitions over.
                if let Some(until) = idle_until {
                    self.load.take_overs.was_idle(until);
                }
                let turn = self.in_turn(|| self.turn_once(world));
                operations += turn.ran as u64;
                let mut moved = turn.ran > 0 || turn.received;
                let phase = self.program().phase();
                // Repeated whenever something ran, because a destructor may have invoked operations and other
                // processors may have sent some.
                if phase == Phase::Ending && (!ended || moved) {
                    (ended, moved) = (true, true);
                    self.cancel_all();
                    self.publish_busy();
                }
                if phase > Phase::Running && self.may_end() {
                    return;
                }
                if moved {
                    waits = 0;
                    if let Some(until) = idle_until.take() {
                        let idle_for = u64::saturating_sub(until, last_work);
                        let (sleep, cpu) = (world.sleep_cost(), || world.thread_cpu_time());
                        spinning.idle_ended(idle_for, sleep, operations, cpu);
                    } else if turn.received {
                        spinning.input_arrived();
                    }
                    last_work = self.now();
                    if phase == Phase::Running && self.is_quiet() {
                        self.coalesce(world);
                        // If there is a balanced stage, a turn first tries to steal from other processors.
                        if self.stages.balanced.is_empty()
                            && spinning.parks_at_once(world.spin(spin))
                        {
                            idle_until = Some(self.park(world));
                            continue;
                        }
                    }
                } else if !self.stages.ready().is_empty() || self.link.outbound() > 0 {
                    // Another processor has the lock of an exclusive stage that is ready here, or its ring is full.
                    waits += 1;
                    if waits > WAITS_BEFORE_YIELD { world.yield_core() } else { world.relax() }
                } else if self.now().saturating_sub(last_work)
                    < spinning.spin_time(world.spin(spin))
                {
                    idle_until = Some(self.now());
                    world.relax();
                } else {
                    spinning.idle_expired();
                    idle_until = Some(self.park(world));
                    continue;
                }
                // Parking reads the clock itself.
                self.current.set_now(world.now());
            }
        });
    }

    /// Runs one turn: reap I/O, sweep forward, submit I/O, sweep backward, submit I/O. The processor is
    /// [entered](Processor::enter) for the duration of the turn.
    ///
    /// # Panics
    /// If called within a turn of the same processor.
    pub fn turn(&self, world: &impl World) -> Turn {
        self.current.set_now(world.now());
        self.in_turn(|| self.turn_once(world))
    }

    fn turn_once(&self, world: &impl World) -> Turn {
        self.tick_tuner(world);
        // First sends invocations that were made between two turns.
        self.flush_outbox();
        let open = self.load.ingress.begin_turn(self.stages.ready());
        let mut received = open && world.reap();
        received |= self.drain_mailbox();
        self.load.delay.turn(self.now(), open.then_some(received), &self.stages, world);
        self.fire_timers();
        self.balance();
        let mut held = StageSet::EMPTY;
        let by_budget = self.load.ingress.limit.has_budget();
        let mut ran = if by_budget {
            self.sweep_by_priority(world, &mut held, 0)
        } else {
            self.sweep(world, &mut held)
        };
        self.submit(world);
        if ran > 0 && !self.stages.ready().is_empty() {
            // Submitting to the kernel may have taken long.
            self.current.set_now(world.now());
        }
        ran += if by_budget {
            self.sweep_by_priority(world, &mut held, ran)
        } else {
            self.sweep_back(world, &mut held)
        };
        // Nothing else ran, so run held stages now.
        while ran == 0
            && let Some(stage) = held.next()
        {
            ran += self.visit(stage, world);
        }
        self.submit(world);
        self.flush_outbox();
        self.observe.counters.turns.add(1);
        if self.observe.counters.turns.get().is_multiple_of(TURNS_PER_PUBLISH) {
            self.memory.publish(&self.observe.counters);
            self.give_back();
        }
        self.publish_busy();
        self.load.tuner.record_turn(ran);
        Turn { ran, received }
    }

    /// Visits the ready stages in the order of declaration, including stages that become ready during the
    /// sweep.
    #[inline]
    fn sweep(&self, world: &impl World, held: &mut StageSet) -> usize {
        let mut next = 0;
        self.visit_each(world, held, |ready| {
            let stage = ready.at_or_after(next).first()?;
            next = stage + 1;
            Some(stage)
        })
    }

    /// Visits the ready stages in the reverse order.
    #[inline]
    fn sweep_back(&self, world: &impl World, held: &mut StageSet) -> usize {
        let mut below = MAX_STAGES;
        self.visit_each(world, held, |ready| {
            below = ready.before(below).last()?;
            Some(below)
        })
    }

    /// Visits the stages that `next` selects from the ready ones, except those that hold.
    #[inline(always)]
    fn visit_each(
        &self,
        world: &impl World,
        held: &mut StageSet,
        mut next: impl FnMut(StageSet) -> Option<usize>,
    ) -> usize {
        let mut ran = 0;
        while let Some(stage) = next(self.stages.ready()) {
            if self.holds(stage) { held.insert(stage) } else { ran += self.visit(stage, world) }
        }
        ran
    }

    /// Publishes whether anything is alive on this processor.
    pub(crate) fn publish_busy(&self) {
        if self.live() > 0 || self.link.requests.any() {
            self.link.busy.mark_busy();
        } else if self.link.busy.is_busy() && self.link.outbound() == 0 {
            self.link.busy.mark_idle();
        }
    }

    #[inline]
    pub(crate) fn visit(&self, stage: usize, world: &impl World) -> usize {
        let ran = self.visit_here(stage, world);
        self.flush_outbox();
        ran
    }

    /// Like [`visit`](Self::visit), without flushing the outbox.
    #[inline]
    pub(crate) fn visit_here(&self, stage: usize, world: &impl World) -> usize {
        // The operations that made the stage ready may have run inline in their callers.
        if self.queued(stage) == 0 {
            self.stages.clear_ready(stage);
            return 0;
        }
        let affine = self.stages.affine.contains(stage);
        if affine && self.forward_to_owner(stage) {
            return 0;
        }
        let ran = self.run_cohort(stage, world);
        if affine && ran > 0 {
            self.program().stages[stage].set_last_processor(self.index());
        }
        ran
    }

    /// Drains the inboxes that other processors have marked.
    pub(crate) fn drain_mailbox(&self) -> bool {
        let mailbox = self.link.mailbox();
        let ready = mailbox.pending.take();
        if ready.is_empty() {
            return false;
        }
        self.stages.add_ready(ready.stages());
        if ready.contains(Inbox::Replies) {
            while let Some(envelope) = mailbox.replies.pop() {
                self.complete_remote(envelope);
            }
        }
        if ready.contains(Inbox::Returned) {
            mailbox.take_returned().into_iter().for_each(|envelope| self.complete_remote(envelope));
        }
        if ready.contains(Inbox::Commands) {
            self.run_commands();
        }
        if ready.contains(Inbox::Wakes) {
            while let Some(id) = mailbox.wakes.pop() {
                self.wake(id);
            }
            if mailbox.take_wake_all() {
                self.wake_everything();
            }
        }
        true
    }

    /// Wakes every suspended operation, because the ring of wake-ups overflowed and dropped some.
    fn wake_everything(&self) {
        self.slab().slots().for_each(|slot| self.wake(slot.id.get()));
    }

    pub(crate) fn fire_timers(&self) {
        if !self.waiting.timers.borrow().has_ticked(self.now()) {
            return;
        }
        // Wakes after the borrow, because a waker may run foreign code that arms timers.
        let mut due = Vec::new();
        self.waiting.timers.borrow_mut().expire(self.now(), |waker| due.push(waker));
        due.into_iter().for_each(|waker| catch_panic(|| waker.wake()));
    }

    /// Whether a program that is draining or ending has no work left on any processor. The check of the other
    /// processors comes first: it makes the messages visible that they sent before they became idle.
    pub(crate) fn may_end(&self) -> bool {
        self.program().is_idle() && self.live() == 0 && self.link.mailbox().commands_waiting() == 0
    }

    /// Whether this processor has nothing to run, to send or to receive.
    fn is_quiet(&self) -> bool {
        self.stages.ready().is_empty()
            && self.link.outbound() == 0
            && self.link.mailbox().pending.is_empty()
    }

    /// Nanoseconds from `now` until the next timer fires.
    pub(crate) fn until_timer(&self, now: u64) -> Option<u64> {
        self.waiting.timers.borrow().next().map(|at| at.saturating_sub(now))
    }

    /// Parks, unless work has arrived. Reads the clock afterwards and returns the time.
    fn park(&self, world: &impl World) -> u64 {
        let now = self.current.set_now(world.now());
        let timeout = self.until_timer(now);
        self.memory.publish(&self.observe.counters);
        let mailbox = self.link.mailbox();
        if timeout == Some(0) || !mailbox.parking.may_sleep(|| mailbox.pending.is_empty()) {
            return now;
        }
        // Other processors may take partitions over while this one sleeps, so nothing may be invoked here.
        self.observe.counters.record_park(now);
        self.leave(|| world.park(timeout));
        mailbox.parking.set_awake(|| world.yield_core());
        self.load.delay.parked();
        self.observe.counters.parks.add(1);
        let woken = self.current.set_now(world.now());
        self.observe.counters.record_unpark(woken.saturating_sub(now));
        woken
    }
}
