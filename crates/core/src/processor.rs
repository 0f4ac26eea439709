//! A processor: one thread's share of the program. Its slab, queues, timers, sessions and counters,
//! reached by one thread only, so all plain cells.
//!
//! # Safety
//! The thread's current processor is kept as a raw pointer, set by [`Processor::enter`] for the
//! length of a borrow of that processor and put back when it ends; so it is valid whenever it is
//! there. The state of a stage is reached by the type in its handle, without asking again.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::error::CallError;
use crate::graph::LocalState;
use crate::operation::{
    ENDED, HELD, Life, NO_SESSION, Payload, QUEUED, RUNNING, Slot, WOKEN, assert_fits,
};
use crate::post::Post;
use crate::profile::{ProcessorCounters, StageCounters};
use crate::program::{Control, Program, Seed};
use crate::queue::{Cap, StageQueue};
use crate::remote::Outbox;
use crate::session::Sessions;
use crate::slab::{Slab, class_of};
use crate::stage::Key;
use crate::waker;
use crate::wheel::Wheel;

/// One stage on this processor.
pub(crate) struct LocalStage {
    pub(crate) queue: StageQueue<Slot>,
    pub(crate) cap: Cap,
    pub(crate) local: LocalState,
    pub(crate) max_cohort: usize,
    pub(crate) cohort_time: u64,
    pub(crate) in_order: bool,
}

/// One thread's share of a program. Made from a [`Seed`] on the thread that runs it.
pub struct Processor {
    /// Unique among all processors of the process, ever; never reused.
    identity: u32,
    /// For wakers; reused after the processor's end.
    number: u16,
    index: usize,
    program: Arc<Program>,
    pub(crate) post: Arc<Post>,
    pub(crate) counters: Arc<ProcessorCounters>,
    slab: Slab,
    pub(crate) stages: Box<[LocalStage]>,
    /// One bit for each stage that has something to run.
    pub(crate) ready: Cell<u64>,
    pub(crate) now: Cell<u64>,
    pub(crate) running: Cell<Option<Slot>>,
    /// Where the arcs of the stage whose cohort runs begin in the counters.
    arc_row: Cell<usize>,
    pub(crate) outbox: RefCell<VecDeque<Outbox>>,
    pub(crate) sessions: Sessions,
    pub(crate) wheel: RefCell<Wheel>,
    pub(crate) was_busy: Cell<bool>,
}

thread_local! {
    static CURRENT: Cell<Option<NonNull<Processor>>> = const { Cell::new(None) };
}

/// Runs `f` with this thread's processor, if it has entered one.
#[inline]
pub(crate) fn try_current<R>(f: impl FnOnce(&Processor) -> R) -> Option<R> {
    // SAFETY: the pointer is valid while it is set (top of the file).
    CURRENT.get().map(|processor| f(unsafe { processor.as_ref() }))
}

/// Runs `f` with this thread's processor.
///
/// # Panics
/// If the thread has not entered one.
#[inline]
#[track_caller]
pub(crate) fn current<R>(f: impl FnOnce(&Processor) -> R) -> R {
    try_current(f).expect("stages are invoked from operations, or inside Processor::enter")
}

impl Seed {
    /// The processor, on the thread that will run it. `unpark` ends its sleep from other threads.
    pub fn grow(self, unpark: crate::Unpark) -> Processor {
        static IDENTITIES: AtomicU32 = AtomicU32::new(1);
        let Seed { program, index } = self;
        let post = program.posts[index].clone();
        post.parking.install(unpark);
        let processors = program.posts.len();
        let stages = program.stages.iter().map(|declared| LocalStage {
            queue: StageQueue::new(),
            cap: Cap::default(),
            local: (declared.make)(index, processors),
            max_cohort: declared.max_cohort,
            cohort_time: declared.cohort_time,
            in_order: declared.in_order,
        });
        Processor {
            identity: IDENTITIES.fetch_add(1, Ordering::Relaxed),
            number: waker::register(post.clone()),
            index,
            post,
            counters: program.counters[index].clone(),
            slab: Slab::new(program.max_operations),
            stages: stages.collect(),
            ready: Cell::new(0),
            now: Cell::new(0),
            running: Cell::new(None),
            arc_row: Cell::new(program.stages.len() * program.stages.len()),
            outbox: RefCell::default(),
            sessions: Sessions::default(),
            wheel: RefCell::new(Wheel::new()),
            was_busy: Cell::new(true),
            program,
        }
    }
}

impl Processor {
    /// Makes this the thread's current processor while `f` runs: operations may be invoked.
    pub fn enter<R>(&self, f: impl FnOnce() -> R) -> R {
        struct Restore(Option<NonNull<Processor>>);
        impl Drop for Restore {
            fn drop(&mut self) {
                CURRENT.set(self.0);
            }
        }
        let _restore = Restore(CURRENT.replace(Some(NonNull::from(self))));
        f()
    }

    /// The processor's number in its program, from zero.
    pub fn index(&self) -> usize {
        self.index
    }

    /// How many processors the program has.
    pub fn processors(&self) -> usize {
        self.program.posts.len()
    }

    /// The whole program.
    pub fn control(&self) -> Control {
        Control(self.program.clone())
    }

    /// The time of the running cohort, in the clock's nanoseconds.
    pub fn now(&self) -> u64 {
        self.now.get()
    }

    /// Operations alive here: running, queued, suspended, or with a result that is not fetched.
    pub fn live(&self) -> usize {
        self.slab.live()
    }

    pub(crate) fn program(&self) -> &Program {
        &self.program
    }

    pub(crate) fn identity(&self) -> u32 {
        self.identity
    }

    pub(crate) fn number(&self) -> u16 {
        self.number
    }

    pub(crate) fn slab(&self) -> &Slab {
        &self.slab
    }

    /// Says whose cohort runs: a stage's, or nobody's (the number of stages).
    pub(crate) fn set_running_stage(&self, stage: usize) {
        self.arc_row.set(stage * self.stages.len());
    }

    #[inline]
    pub(crate) fn running(&self) -> Option<Slot> {
        self.running.get()
    }

    /// This processor's part of a stage's state.
    #[track_caller]
    #[inline]
    fn any_state(&self, key: Key) -> &Rc<dyn Any> {
        self.check(key);
        &self.stages[usize::from(key.stage())].local.state
    }

    #[inline]
    pub(crate) fn state<S: 'static>(&self, key: Key) -> &S {
        let state: &dyn Any = &**self.any_state(key);
        debug_assert!(state.is::<S>());
        // SAFETY: a key is made with its stage's declaration, by the handle's constructor that also
        // made the state; `any_state` has checked that it is of this program.
        unsafe { &*(&raw const *state).cast::<S>() }
    }

    #[inline]
    pub(crate) fn state_rc<S: 'static>(&self, key: Key) -> Rc<S> {
        let state = self.any_state(key).clone();
        debug_assert!((*state).is::<S>());
        // SAFETY: as in `state`; the count that was just taken goes into the new `Rc`.
        unsafe { Rc::from_raw(Rc::into_raw(state).cast::<S>()) }
    }

    /// Refuses a handle of another graph.
    #[inline]
    #[track_caller]
    pub(crate) fn check(&self, key: Key) {
        assert_eq!(key.graph(), self.program.id, "a handle is used with the graph that made it");
    }

    pub(crate) fn stage_name(&self, stage: u8) -> &'static str {
        self.program.stages[usize::from(stage)].name
    }

    pub(crate) fn stage_counters(&self, stage: u8) -> &StageCounters {
        &self.counters.stages[usize::from(stage)]
    }

    /// Puts an invocation into a slot and queues it here.
    #[inline(always)]
    pub(crate) fn place<F, Fut, T>(
        &self,
        stage: u8,
        flags: u8,
        invocation: F,
    ) -> Result<Slot, CallError>
    where
        F: FnOnce(&Processor) -> Fut,
        Fut: Future<Output = T>,
    {
        let slot = self.reserve::<Payload<F, Fut, T>>(stage)?;
        let invocation = ManuallyDrop::new(invocation);
        slot.flags.set(flags | QUEUED);
        // SAFETY: the slot is fresh and its class was chosen for this payload.
        unsafe { slot.fill(stage, invocation) };
        self.push(slot, usize::from(stage));
        Ok(slot)
    }

    /// A free slot with room for a `P`, in the running operation's session.
    #[inline(always)]
    pub(crate) fn reserve<P>(&self, stage: u8) -> Result<Slot, CallError> {
        const { assert_fits::<P>() };
        let session = self.sessions.current();
        if session != NO_SESSION && self.sessions.has_ended(session) {
            return Err(self.refuse(stage, CallError::Ended));
        }
        let Some(slot) = self.slab.take(const { class_of(size_of::<P>()) }) else {
            return Err(self.refuse(stage, CallError::Full { bound: self.slab.bound() }));
        };
        if session != NO_SESSION {
            self.sessions.join(self, slot, session);
        }
        Ok(slot)
    }

    #[cold]
    fn refuse(&self, stage: u8, error: CallError) -> CallError {
        self.stage_counters(stage).refused.add(1);
        error
    }

    /// Queues a slot at its stage, on behalf of whatever runs now.
    #[inline]
    pub(crate) fn queue(&self, slot: Slot) {
        slot.set(QUEUED);
        self.push(slot, usize::from(slot.stage.get()));
    }

    #[inline(always)]
    fn push(&self, slot: Slot, stage: usize) {
        slot.queued_at.set(self.now.get());
        self.stages[stage].queue.push(slot);
        self.ready.set(self.ready.get() | 1 << stage);
        self.counters.arcs[self.arc_row.get() + stage].add(1);
    }

    /// Re-enables a suspended operation, if it is still the one meant.
    #[inline]
    pub(crate) fn enable(&self, slot: Slot, generation: u32) {
        if slot.generation.get() != generation || slot.has(QUEUED | ENDED) {
            return;
        }
        if slot.has(RUNNING) {
            slot.set(WOKEN);
        } else if slot.life.get() == Life::Started {
            self.queue(slot);
        }
    }

    /// Ends operations that must not run on: at once if they are suspended, at the next chance if
    /// they are queued or running. All are marked first, so that none is re-enabled by another's end.
    pub(crate) fn end_each(&self, members: &[(Slot, u32)]) {
        members.iter().for_each(|(slot, _)| slot.set(ENDED));
        for (slot, generation) in members {
            let same = slot.generation.get() == *generation;
            if same && slot.life.get() == Life::Started && !slot.has(QUEUED | RUNNING) {
                self.discard(*slot, CallError::Ended);
            }
        }
    }

    /// Drops an operation's work and leaves `error` in its place.
    pub(crate) fn discard(&self, slot: Slot, error: CallError) {
        let counters = self.stage_counters(slot.stage.get());
        match error {
            CallError::Panicked { .. } => counters.panicked.add(1),
            _ => counters.ended.add(1),
        }
        slot.set(RUNNING);
        // A destructor that panics has had its say; the operation fails with the first reason.
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| slot.drop_work()));
        slot.clear(RUNNING | WOKEN);
        if slot.has(HELD) {
            slot.fail(error);
        }
        self.finish(slot);
    }

    /// The operation is over: its result goes to whoever waits, or nowhere.
    #[inline]
    pub(crate) fn finish(&self, slot: Slot) {
        self.sessions.leave(self, slot);
        if slot.has(HELD) {
            // Taken before the call: what it wakes may look at the slot.
            let waiter = slot.waiter.take();
            waiter.notify(self);
        } else {
            self.free(slot);
        }
    }

    /// Drops what is left in a finished slot, of which no waiter knows any more, and gives it back.
    #[inline]
    pub(crate) fn free(&self, slot: Slot) {
        struct Give<'a>(&'a Slab, Slot);
        impl Drop for Give<'_> {
            fn drop(&mut self) {
                self.0.give(self.1);
            }
        }
        let _give = Give(&self.slab, slot);
        slot.drop_output();
    }

    /// Ends everything that lives here.
    pub(crate) fn end_all(&self) {
        let slots = (0..self.slab.capacity()).rev().filter_map(|index| self.slab.get(index));
        let alive = slots.filter(|slot| slot.life.get() != Life::Free);
        let members: Vec<_> = alive.map(|slot| (slot, slot.generation.get())).collect();
        self.end_each(&members);
    }

    /// Arms a timer of this processor; its resolution is one millisecond.
    pub(crate) fn deadline_after(&self, duration: Duration) -> u64 {
        self.now.get().saturating_add(duration.as_nanos().try_into().unwrap_or(u64::MAX / 2))
    }
}

impl Drop for Processor {
    fn drop(&mut self) {
        self.enter(|| {
            self.end_all();
            for stage in &self.stages {
                while let Some(slot) = stage.queue.pop(crate::queue::Order::NewestFirst) {
                    slot.clear(QUEUED);
                    self.discard(slot, CallError::Ended);
                }
            }
            for index in 0..self.slab.capacity() {
                if let Some(slot) = self.slab.get(index) {
                    drop(slot.waiter.take());
                    slot.drop_output();
                }
            }
            while let Some(outbound) = self.outbox.borrow_mut().pop_front() {
                outbound.abandon(self);
            }
        });
        waker::unregister(self.number);
        self.program.keep(self.slab.remains());
    }
}
