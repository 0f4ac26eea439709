//! The loop of a processor: reap, forward, submit, backward, submit; then spin a little, then park.
//!
//! Stages are visited in the order of their declaration and back again, because requests travel
//! down the stages and their answers up (tr2001 §5.1.2). The paper's processors slept in growing
//! steps when they found nothing; ours sleeps in its driver and is woken.

use crate::control::adaptive_spin::Spinning;
use crate::mailbox::mailbox::Inbox;
use crate::operation::slot::Parcel;
use crate::panic::PanicReport;
use crate::processor::notify::contain;
use crate::processor::processor::Processor;
use crate::program::program::Phase;

/// Nanoseconds that a sleep costs where the [`World`] does not say.
const DEFAULT_SLEEP_COST: u64 = 3_000;

/// Gauges are published every so many turns, and before each sleep.
const PUBLISH: u64 = 256;

/// What a processor is handed: a clock, and the way to completions of I/O. All else of the outside
/// stays outside, so that a simulation can take its place.
///
/// A panic in [`panicked`](Self::panicked), [`wide`](Self::wide) or [`cohort`](Self::cohort) is contained: these may tell
/// subscribers of a user's. A panic in another method leaves the turn, and no operation is lost by it.
pub trait World {
    /// Nanoseconds of a clock that never goes back, the same for all processors of a program:
    /// deadlines travel.
    fn now(&self) -> u64;
    /// Wakes the operations whose I/O has completed. True if there were any.
    fn reap(&self) -> bool;
    /// Hands the I/O that operations have started to the kernel.
    fn submit(&self);
    /// As [`submit`](Self::submit), while operations wait here for their turn: what comes meanwhile is better left
    /// outside than to wait among them, and the next [`reap`](Self::reap) may be some turns away. No different by default.
    #[inline]
    fn hand_over(&self) {
        self.submit();
    }
    /// Submits, then sleeps until something has completed, the processor's
    /// [`Unpark`](crate::Unpark) is called, or `timeout` nanoseconds are over.
    fn park(&self, timeout: Option<u64>);
    /// Called after a turn that did something, when nothing is left to do here: whether to wait a
    /// little for more than one thing to come, `timeout` nanoseconds at most. Nothing ends such a
    /// wait from this program, so it is to be short. None by default.
    #[inline]
    fn gather(&self, timeout: Option<u64>) {
        let _ = timeout;
    }
    /// Told of a panic in an operation, a handler or a hook of a stage, which was contained. It is
    /// told when the cohort is over. A panic in here is contained too.
    fn panicked(&self, report: &PanicReport) {
        let _ = report;
    }
    /// Told once of each type of operation of `stage` whose closure takes more than
    /// [`WIDE_OPERATION`](crate::WIDE_OPERATION) bytes.
    fn wide(&self, stage: &'static str, operation: &'static str, bytes: usize) {
        let _ = (stage, operation, bytes);
    }
    /// Told of every cohort: its stage, its operations and its nanoseconds. To do anything here
    /// costs every cohort; nothing is free.
    #[inline]
    fn cohort(&self, stage: &'static str, operations: usize, ns: u64) {
        let _ = (stage, operations, ns);
    }
    /// Nanoseconds that this thread has been running, without those in which the machine ran others:
    /// by it the sizes of cohorts are compared ([`Graph::find_cohorts`](crate::Graph::find_cohorts)),
    /// some ten times in a million operations. The [time](Self::now) where that cannot be told.
    fn worked(&self) -> u64 {
        self.now()
    }
    /// Nanoseconds that what costs this thread's time has waited out here for its turn: work that operations have asked for,
    /// and what has come and was [left outside](Self::hand_over). [`Admission`](crate::Admission) adds it to what is
    /// waited in the stages. None by default; asked some hundred times a second.
    fn waited(&self) -> u64 {
        0
    }
    /// Nanoseconds of processor time that one more [`park`](Self::park) costs this thread. By it a
    /// processor decides [for how long it polls](Processor::run) before it parks. Asked after each
    /// idle period, so it must be cheap. 3 µs by default.
    #[inline]
    fn sleep_cost(&self) -> u64 {
        DEFAULT_SLEEP_COST
    }
    /// Called while there is nothing to do but soon may be.
    fn relax(&self) {
        std::hint::spin_loop();
    }
}

/// What one turn of the loop did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// Operations run.
    pub ran: usize,
    /// Whether anything came from outside.
    pub received: bool,
}

/// The lowest stage of a set.
pub(crate) fn first(stages: u64) -> Option<usize> {
    (stages != 0).then(|| stages.trailing_zeros() as usize)
}

/// The highest stage of a set.
pub(crate) fn last(stages: u64) -> Option<usize> {
    (stages != 0).then(|| 63 - stages.leading_zeros() as usize)
}

impl Processor {
    /// Runs until the program has been drained or ended and nothing is left. `spin` is the longest
    /// time in nanoseconds for which an idle processor polls before it sleeps. It polls for less, or
    /// not at all, as long as that would cost more processor time than the sleeps that it saves.
    pub fn run(&self, world: &impl World, spin: u64) {
        self.enter(|| {
            self.now.set(world.now());
            let mut last_work = self.now.get();
            let mut spinning = Spinning::new(spin);
            // When there was still nothing to do, if there was not.
            let mut idle = None;
            let mut ended = false;
            loop {
                let turn = self.turn(world);
                let phase = self.program().phase();
                // Again whenever something ran: a destructor may have invoked, or others sent.
                if phase == Phase::Ending && (!ended || turn.ran > 0 || turn.received) {
                    ended = true;
                    self.end_all();
                    continue;
                }
                if phase > Phase::Running && self.may_end() {
                    return;
                }
                if turn.ran > 0 || turn.received {
                    if let Some(idle) = idle.take() {
                        spinning.came(u64::saturating_sub(idle, last_work), world.sleep_cost());
                    }
                    last_work = self.now.get();
                    if phase == Phase::Running && self.is_quiet() {
                        world.gather(self.next_timer());
                    }
                } else if self.ready.get() != 0 || !self.outbox.borrow().is_empty() {
                    // Another processor is in our exclusive stage, or has a full post.
                    world.relax();
                } else if self.now.get().saturating_sub(last_work) < spinning.moment() {
                    idle = Some(self.now.get());
                    world.relax();
                } else {
                    idle = Some(self.sleep(world));
                }
            }
        });
    }

    /// One turn: reap, sweep forward, submit, sweep backward, submit. The processor is
    /// [entered](Processor::enter) meanwhile.
    ///
    /// # Panics
    /// If called from within a turn of the same processor.
    pub fn turn(&self, world: &impl World) -> Turn {
        self.in_turn(|| self.turn_once(world))
    }

    fn turn_once(&self, world: &impl World) -> Turn {
        self.now.set(world.now());
        self.climb(world);
        // What was invoked between two turns goes first.
        self.flush_outbox();
        let open = self.takes_in();
        let mut received = open && world.reap();
        received |= self.open_post();
        self.congestion.turn(self.now.get(), open.then_some(received), &self.stages, world);
        self.fire_timers();
        self.balance();
        let mut held = 0;
        let mut ran = match self.entries {
            0 => self.sweep(world, &mut held),
            _ => self.sweep_by_priority(world, &mut held, 0),
        };
        self.submit(world);
        if ran > 0 && self.ready.get() != 0 {
            // What was handed to the kernel may have taken long.
            self.now.set(world.now());
        }
        ran += match self.entries {
            0 => self.sweep_back(world, &mut held),
            _ => self.sweep_by_priority(world, &mut held, ran),
        };
        // Nothing else to do: no reason to wait any more.
        while ran == 0
            && let Some(stage) = first(held)
        {
            held &= held - 1;
            ran += self.visit(stage, world);
        }
        self.submit(world);
        self.flush_outbox();
        self.counters.turns.add(1);
        if self.counters.turns.get().is_multiple_of(PUBLISH) {
            self.publish();
        }
        self.say_how_busy();
        self.auto.turned(ran);
        Turn { ran, received }
    }

    #[inline]
    fn submit(&self, world: &impl World) {
        if self.leaves_outside() {
            world.hand_over();
        } else {
            world.submit();
        }
    }

    /// Forward: only the stages that have something, also those that get it while this is under way.
    #[inline]
    fn sweep(&self, world: &impl World, held: &mut u64) -> usize {
        let (mut ran, mut next) = (0, 0);
        while let Some(stage) = first(self.ready.get() & u64::MAX << next) {
            next = stage + 1;
            if self.holds(stage) {
                *held |= 1 << stage;
                continue;
            }
            ran += self.visit(stage, world);
        }
        ran
    }

    /// Backward.
    #[inline]
    fn sweep_back(&self, world: &impl World, held: &mut u64) -> usize {
        let (mut ran, mut below) = (0, u64::MAX);
        while let Some(stage) = last(self.ready.get() & below) {
            below = (1 << stage) - 1;
            if self.holds(stage) {
                *held |= 1 << stage;
                continue;
            }
            ran += self.visit(stage, world);
        }
        ran
    }

    /// Tells the others whether anything is alive here.
    pub(crate) fn say_how_busy(&self) {
        if self.live() > 0 || self.orders.are_owed() {
            self.say_busy();
        } else if self.share.is_busy() && self.outbox.borrow().is_empty() {
            self.share.say_idle();
        }
    }

    /// Writes what is not counted as it happens.
    fn publish(&self) {
        self.counters.operations.set(self.live() as u64);
        self.counters.memory.set(self.slab().bytes() as u64);
        self.counters.spilled.set(self.slab().spilled() as u64);
        let (pooled, objects) = self.pools().figures();
        self.counters.pooled.set(pooled as u64);
        self.counters.objects.set(objects as u64);
    }

    #[inline]
    pub(crate) fn visit(&self, stage: usize, world: &impl World) -> usize {
        let ran = self.visit_here(stage, world);
        self.flush_outbox();
        ran
    }

    /// The same, and nothing leaves.
    #[inline]
    pub(crate) fn visit_here(&self, stage: usize, world: &impl World) -> usize {
        // Those that were ready may have run inside of their callers.
        if self.queued(stage) == 0 {
            self.ready.set(self.ready.get() & !(1 << stage));
            return 0;
        }
        let homed = self.homed & 1 << stage != 0;
        if homed && self.leave_to_home(stage) {
            return 0;
        }
        let ran = self.run_cohort(stage, world);
        if homed && ran > 0 {
            self.program().stages[stage].ran(self.index());
        }
        ran
    }

    /// Looks into the inboxes that others have marked.
    pub(crate) fn open_post(&self) -> bool {
        let marks = self.post.pending.take();
        if !marks.any() {
            return false;
        }
        self.ready.set(self.ready.get() | marks.stages());
        if marks.contains(Inbox::Replies) {
            while let Some(Parcel(slot)) = self.post.replies.pop() {
                self.come_home(Parcel(slot));
            }
        }
        if marks.contains(Inbox::Orders) {
            self.follow_orders();
        }
        if marks.contains(Inbox::Wakes) {
            while let Some(name) = self.post.next_wake() {
                self.enable(name);
            }
            if self.post.take_wake_all() {
                self.wake_everything();
            }
        }
        true
    }

    /// Wake-ups were dropped: whoever was meant is among the suspended.
    fn wake_everything(&self) {
        for index in 0..self.slab().capacity() {
            if let Some(slot) = self.slab().get(index) {
                self.enable(slot.name.get());
            }
        }
    }

    pub(crate) fn fire_timers(&self) {
        // Woken after the borrow: they may be foreign, and foreign code may arm timers.
        let mut due = Vec::new();
        self.wheel.borrow_mut().fire(self.now.get(), |waker| due.push(waker));
        due.into_iter().for_each(|waker| contain(|| waker.wake()));
    }

    /// Says, before others can know otherwise, that there is something alive here.
    pub(crate) fn say_busy(&self) {
        self.share.say_busy();
    }

    /// Whether a program that is to finish has nothing left, here or elsewhere. What the others have
    /// sent before they had nothing left is seen after that.
    pub(crate) fn may_end(&self) -> bool {
        self.program().is_idle() && self.live() == 0 && self.post.orders_waiting() == 0
    }

    /// Nothing is to be done here.
    fn is_quiet(&self) -> bool {
        self.ready.get() == 0 && self.outbox.borrow().is_empty() && self.post.pending.is_quiet()
    }

    /// Nanoseconds until the next timer fires.
    fn next_timer(&self) -> Option<u64> {
        self.wheel.borrow().next().map(|at| at.saturating_sub(self.now.get()))
    }

    /// Sleeps, unless something is to be done already. The time behind it.
    fn sleep(&self, world: &impl World) -> u64 {
        let now = world.now();
        let timeout = self.wheel.borrow().next().map(|at| at.saturating_sub(now));
        self.publish();
        if timeout == Some(0) {
            return now;
        }
        if !self.post.parking.may_sleep(|| self.post.pending.is_quiet()) {
            return now;
        }
        world.park(timeout);
        self.post.parking.woke();
        self.congestion.slept();
        self.counters.parks.add(1);
        let woken = world.now();
        self.counters.parked.add(woken.saturating_sub(now));
        woken
    }
}
