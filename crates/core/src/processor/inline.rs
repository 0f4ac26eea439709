//! Direct execution: a call that is awaited at once is run at once, like a procedure call.
//!
//! Where a stage's code is small, so that a cohort of it has nothing to gain, its calls need not
//! wait in a queue for one. When the caller awaits such a call for the first time (never before:
//! the order that a program sees is that of suspending callers) the child is taken from its queue
//! and polled inside of the caller's own poll. If it completes, its result is there without a
//! wake-up; if it suspends it has become an operation like any other, and the caller suspends too.
//! Operations that were queued at the stage before the child run first, in the same place. So the
//! stage keeps its order.
//!
//! How deep children run inside of one another is bounded, for the stack's sake, and how many run
//! while one operation is polled, for the other operations' sake; beyond that a call waits in its
//! queue, as all do elsewhere. [`crate::handle::run_inline`] has what is cheaper still.
//!
//! # Safety
//! The counters that [`Direct`] points to are the processor's, which keeps them as long as it lives;
//! there are some for each stage of its graph, and only such are asked for (keys are checked). A row
//! of arcs is followed, [`Direct::beyond`] further on, by one of as many counters
//! ([`ProcessorCounters::arcs`]).

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::CallError;
use crate::handle::graph::{Declared, StageOptions};
use crate::metrics::counters::{Counter, ProcessorCounters};
use crate::operation::slot::{
    ENDED, HELD, Header, Life, NO_SESSION, OUTER, QUEUED, Slot, Step, WOKEN,
};
use crate::panic::PanicReport;
use crate::processor::notify::{contain, discard_panic};
use crate::processor::processor::{LocalStage, Processor};
use crate::processor::turn::World;
use crate::queue::local::Order;

/// Children inside of one another.
const DEPTH: u32 = 16;
/// Children, and children of these, while one operation of a cohort goes on.
const AT_ONCE: u32 = 64;

impl StageOptions<'_> {
    /// Runs a call of this stage inside of the caller when it is first awaited, where it stays on
    /// its processor: for stages so small that no cohort pays. What is not awaited at once (joined,
    /// dispatched, sent by another processor) runs in cohorts as ever, as does what a direct call
    /// leaves suspended. [`run`](crate::SharedStage::run) is the cheapest way to invoke such a stage.
    ///
    /// A stage that [holds](Self::hold) or has work at the [end of a
    /// cohort](crate::CohortStage), and one with a lock that is taken once a cohort (exclusive
    /// stages), always runs in cohorts: for these the option does nothing.
    ///
    /// ```
    /// let mut graph = phalanx_core::Graph::new();
    /// let parse = graph.stage("parse").direct().shared(());
    /// # let _ = parse;
    /// ```
    #[must_use]
    pub fn direct(mut self) -> Self {
        self.direct = true;
        self
    }
}

/// What a processor knows of its direct calls.
pub(crate) struct Direct {
    /// The stages whose calls are run at once, a bit each.
    stages: Cell<u64>,
    /// Those of which they may be.
    able: u64,
    /// Of these, those whose operations may become a part of their callers.
    plain: u64,
    /// Those of `stages` whose operations do.
    inside: Cell<u64>,
    depth: Cell<u32>,
    /// How many more the operation of the cohort that is being polled may run.
    left: Cell<u32>,
    /// Where the arcs from each stage begin; some in vain, so that no number is out of bounds.
    rows: Box<[*const Counter; 64]>,
    /// How far behind an arc its operations are counted that were a part of their callers.
    beyond: usize,
    /// Panics that the world has not yet been told of.
    pub(crate) panics: RefCell<Vec<PanicReport>>,
}

impl Direct {
    pub(crate) fn new(
        declared: &[Declared],
        stages: &[LocalStage],
        counters: &ProcessorCounters,
    ) -> Self {
        let able = |(declared, stage): (&Declared, &LocalStage)| {
            let alone = stage.local.gate.is_none() && stage.local.batch.is_none();
            alone
                && !stage.rules.filling.is_some()
                && stage.rules.end_of_cohort.is_none()
                && !declared.balanced
        };
        let each = || declared.iter().zip(stages).enumerate();
        let able = each().fold(0, |set, (n, of)| set | u64::from(able(of)) << n);
        let bounded = |stage: &LocalStage| stage.rules.capacity.is_some();
        let plain = each().fold(able, |set, (n, (_, of))| set & !(u64::from(bounded(of)) << n));
        let row = |n: usize| match n < stages.len() {
            true => counters.local_row(n).as_ptr(),
            false => std::ptr::null(),
        };
        let chosen = each().fold(0, |set, (n, (of, _))| set | u64::from(of.direct) << n);
        Self {
            stages: Cell::new(chosen & able),
            able,
            depth: Cell::new(0),
            plain,
            inside: Cell::new(chosen & plain),
            left: Cell::new(0),
            rows: Box::new(std::array::from_fn(row)),
            beyond: counters.beyond(),
            panics: RefCell::default(),
        }
    }

    /// Runs the calls of exactly these stages at once, as far as may be.
    pub(crate) fn choose(&self, stages: u64) {
        self.stages.set(stages & self.able);
        self.inside.set(stages & self.plain);
    }

    #[inline(always)]
    pub(crate) fn has(&self, stage: u8) -> bool {
        self.stages.get() & 1 << (stage & 63) != 0
    }

    /// Whether a child is being run inside of its caller.
    pub(crate) fn is_inside(&self) -> bool {
        self.depth.get() > 0
    }

    /// The same for operations that become a part of their callers.
    #[inline(always)]
    pub(crate) fn has_inside(&self, stage: u8) -> bool {
        self.inside.get() & 1 << (stage & 63) != 0
    }

    /// An operation of a cohort is about to be polled.
    #[inline(always)]
    pub(crate) fn begin(&self) {
        self.left.set(AT_ONCE);
    }

    /// Whether one more may run inside of the operation that is polled; then it is counted.
    #[inline(always)]
    pub(crate) fn allows(&self) -> bool {
        match self.left.get().checked_sub(1) {
            Some(left) => {
                self.left.set(left);
                true
            }
            None => false,
        }
    }

    /// Where the arcs from a stage begin in the counters.
    #[inline(always)]
    pub(crate) fn row(&self, stage: u8) -> *const Counter {
        self.rows[usize::from(stage & 63)]
    }
}

/// What a processor goes back to after a child inside of its caller.
pub(crate) struct Outside {
    row: *const Counter,
    watched: (u64, *mut Header),
}

impl Processor {
    /// Counts an operation of `stage` that was a part of its caller, and has completed.
    #[inline(always)]
    pub(crate) fn note_inside(&self, stage: u8) {
        let row = self.arc_row.get();
        // SAFETY: of a stage that there is (top of the file).
        unsafe { (*row.add(self.direct.beyond + usize::from(stage))).add(1) };
    }

    /// Whether an awaited call's operation might be run here and now.
    #[inline(always)]
    pub(crate) fn is_direct(&self, slot: Slot) -> bool {
        slot.life.get() == Life::Unstarted && self.direct.has(slot.stage.get())
    }

    /// The operation that is being polled: not where none is, nor from destructors.
    #[inline(always)]
    pub(crate) fn pollable(&self) -> Option<Slot> {
        let caller = self.running.get()?;
        (caller.life.get() == Life::Started && caller.has(QUEUED)).then_some(caller)
    }

    /// Goes on with `slot`, inside of the operation that runs.
    #[inline(always)]
    fn turn_inside(&self, slot: Slot) -> Outside {
        let stage = slot.stage.get();
        self.direct.depth.set(self.direct.depth.get() + 1);
        let row = self.arc_row.replace(self.direct.row(stage));
        Outside { row, watched: self.counters.watch.enter(usize::from(stage), slot) }
    }

    #[inline(always)]
    pub(crate) fn turn_outside(&self, Outside { row, watched }: Outside) {
        self.counters.watch.leave(watched);
        self.arc_row.set(row);
        self.direct.depth.set(self.direct.depth.get() - 1);
    }

    /// Runs an operation of a direct stage, which has not started, if that may be. Operations that were
    /// queued before it run first, unless the stage is last in, first out.
    pub(crate) fn run_directly(&self, slot: Slot) {
        let Some(caller) = self.pollable() else { return };
        let local = self.stage(usize::from(slot.stage.get()));
        if slot.flags.get() == HELD | QUEUED
            && self.may_run_directly()
            && (local.queue.pop_alone(slot) || self.pop_among_others(caller, slot, local))
        {
            self.run_inside_caller(caller, slot, local);
        }
    }

    /// Whether the operation has been taken from its queue.
    #[cold]
    #[inline(never)]
    fn pop_among_others(&self, caller: Slot, slot: Slot, local: &LocalStage) -> bool {
        if local.lifo {
            return local.queue.pop_newest(slot);
        }
        while let Some(next) = local.queue.oldest()
            && next.life.get() == Life::Unstarted
            && next.flags.get() & !HELD == QUEUED
            // One of those before may have run it inside of itself.
            && slot.life.get() == Life::Unstarted
        {
            if next != slot && !self.may_run_directly() {
                break;
            }
            local.queue.pop(Order::OldestFirst);
            if next == slot {
                return true;
            }
            self.run_inside_caller(caller, next, local);
        }
        false
    }

    #[inline(always)]
    fn may_run_directly(&self) -> bool {
        self.direct.depth.get() < DEPTH && self.direct.allows()
    }

    /// Runs an operation that has been taken from its queue and has not started.
    #[inline(always)]
    fn run_inside_caller(&self, caller: Slot, slot: Slot, local: &LocalStage) {
        let stage = usize::from(slot.stage.get());
        let session = self.sessions.current();
        let outside = self.turn_inside(slot);
        caller.set(OUTER);
        self.running.set(Some(slot));
        if slot.session.get() != NO_SESSION && self.sessions.is_late(slot.session.get(), self.now())
        {
            self.running.set(None);
            self.discard(slot, CallError::DeadlinePassed);
        } else {
            self.sessions.enter(slot.session.get());
            match catch_unwind(AssertUnwindSafe(|| slot.poll(self))) {
                Ok(Step::Done | Step::DoneBare) => {
                    self.counters.stages[stage].direct.add(1);
                    slot.clear(QUEUED | WOKEN);
                    self.finish(slot);
                }
                Ok(Step::Suspended) => self.suspended_directly(slot, stage),
                Err(panic) => {
                    self.running.set(None);
                    self.counters.stages[stage].started.add(1);
                    let (operation, site) = (slot.operation(), slot.site.get());
                    let error = self.note_panic(stage as u8, operation, site, &*panic);
                    self.discard(slot, error);
                    discard_panic(panic);
                }
            }
        }
        self.running.set(Some(caller));
        caller.clear(OUTER);
        self.turn_outside(outside);
        self.sessions.enter(session);
        if local.rules.capacity.is_some() {
            self.give_room(local);
        }
    }

    /// From here on it is like any other operation.
    #[cold]
    #[inline(never)]
    fn suspended_directly(&self, slot: Slot, stage: usize) {
        let counters = &self.counters.stages[stage];
        counters.started.add(1);
        counters.suspended.add(1);
        if slot.has(ENDED) {
            self.discard(slot, CallError::Ended);
        } else if slot.has(WOKEN) {
            slot.clear(WOKEN);
            self.requeue(slot);
            self.ready.set(self.ready.get() | 1 << stage);
        } else {
            slot.clear(QUEUED);
        }
    }

    /// Tells the world of the panics in the cohort that is over.
    #[inline]
    pub(crate) fn tell_of_panics(&self, world: &impl World) {
        if self.direct.panics.borrow().is_empty() {
            return;
        }
        let panics = self.direct.panics.take();
        for report in panics {
            contain(|| world.panicked(&report));
        }
    }
}
