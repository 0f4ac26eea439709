//! A processor: one thread's share of the program, with its slab, queues, timers, sessions and counters. Only
//! one thread accesses it, so its fields are plain cells.
//!
//! # Safety
//! The state of a stage is accessed with the type in its handle, without a further check.

use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::rc::Rc;
use std::time::Duration;

use crate::memory::slab::Slab;
use crate::metrics::counter::Counter;
use crate::metrics::counters::StageCounters;
use crate::operation::processor_ref::ProcessorRef;
use crate::processor::observe::part::Observe;
use crate::processor::part::current::Current;
use crate::processor::part::link::Link;
use crate::processor::part::stages::Stages;
use crate::processor::part::{Load, Memory, Scratch, Waiting};
use crate::program::control::Control;
use crate::program::program::Program;
use crate::stage::key::Key;
use crate::world::nanoseconds;

/// One thread's share of a program. A [`ProcessorBuilder`](crate::ProcessorBuilder) builds it on the thread that runs
/// it.
///
/// ```compile_fail
/// fn leaves_its_thread(processor: phalanx_core::Processor) {
///     std::thread::spawn(move || drop(processor)); // a processor is not `Send`
/// }
/// ```
pub struct Processor {
    /// Unique among all processors of the process; never reused.
    pub(crate) identity: u32,
    /// The number in wakers; reused after the processor's end.
    pub(crate) waker_number: u16,
    pub(crate) index: usize,
    /// The key of the graph's first stage. Only handles of this graph are valid here.
    pub(crate) first_key: Key,
    pub(crate) memory: Memory,
    pub(crate) stages: Stages,
    pub(crate) current: Current,
    pub(crate) link: Link,
    pub(crate) waiting: Waiting,
    pub(crate) load: Load,
    pub(crate) scratch: Scratch,
    pub(crate) observe: Observe,
}

impl Processor {
    /// The processor's number in its program, from zero.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The number of processors in the program.
    pub fn processors(&self) -> usize {
        self.link.program().mailboxes.len()
    }

    /// A handle to control the whole program.
    pub fn control(&self) -> Control {
        Control(self.link.program().clone())
    }

    /// The time of the running cohort, in the clock's nanoseconds.
    pub fn now(&self) -> u64 {
        self.current.now()
    }

    /// The number of live operations: running, queued, suspended, or with a result that has not been taken.
    pub fn live(&self) -> usize {
        self.slab().live()
    }

    /// The number of armed timers.
    pub fn timers(&self) -> usize {
        self.waiting.timers.borrow().armed()
    }

    pub(crate) fn program(&self) -> &Program {
        self.link.program()
    }

    pub(crate) fn slab(&self) -> &Slab {
        &self.memory.slab
    }

    /// Sets the stage whose cohort is running, or the number of stages if none is.
    pub(crate) fn set_running_stage(&self, stage: usize) {
        let arcs = &self.observe.counters.arcs[stage * self.stages.len()..];
        self.current.set_arc_row(arcs.as_ptr());
    }

    /// The stage whose cohort is running, or the number of stages if none is.
    pub(crate) fn running_stage(&self) -> usize {
        let arcs = self.observe.counters.local_arcs().as_ptr();
        let bytes = self.current.arc_row().addr() - arcs.addr();
        bytes / (size_of::<Counter>() * self.stages.len().max(1)) % (self.stages.len() + 1)
    }

    /// Counts the operations that `f` queues as coming from a stage of another processor.
    pub(crate) fn on_behalf_of<R>(&self, processor: u16, stage: u8, f: impl FnOnce() -> R) -> R {
        let (processor, stage) = (usize::from(processor), usize::from(stage));
        let row = if processor == self.index {
            // A processor that sent an envelope to itself, which another processor could have stolen.
            self.observe.counters.local_row(stage)
        } else {
            self.observe.counters.crossing_row(processor, stage)
        };
        let before = self.current.set_arc_row(row);
        let result = f();
        self.current.set_arc_row(before);
        result
    }

    /// This processor's state of a stage whose key was checked.
    ///
    /// # Safety
    /// The stage was declared with a state of type `S`.
    #[inline]
    pub(crate) unsafe fn state<S: 'static>(&self, stage: u8) -> &S {
        let local = self.stage(usize::from(stage));
        debug_assert!(local.parts.state.is::<S>());
        // SAFETY: the caller guarantees the type. The state lives as long as the processor.
        unsafe { &*local.state.cast::<S>() }
    }

    /// A counted reference to this processor's state of a stage whose key was checked.
    ///
    /// # Safety
    /// As for [`Processor::state`].
    #[inline]
    pub(crate) unsafe fn state_rc<S: 'static>(&self, stage: u8) -> Rc<S> {
        let local = self.stage(usize::from(stage));
        debug_assert!(local.parts.state.is::<S>());
        let state = local.state.cast::<S>();
        // SAFETY: the pointer is `local.state`, and the caller guarantees its type. The new `Rc` owns the added count.
        unsafe {
            Rc::increment_strong_count(state);
            Rc::from_raw(state)
        }
    }

    /// The number of the stage at `key`. Panics on a key of another graph. Unchecked accesses elsewhere rely on this
    /// check.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn check(&self, key: Key) -> u8 {
        key.among(self.first_key).expect("a handle works only with the graph that made it")
    }

    /// Like [`check`](Self::check), but for code that is about to move `invocation` into a slot. Inside a
    /// `ManuallyDrop`, the invocation needs no unwinding code, which would force it into memory on the way.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn check_for<F>(&self, key: Key, invocation: F) -> ManuallyDrop<F> {
        #[cold]
        #[inline(never)]
        #[track_caller]
        fn reject_foreign<F>(processor: &Processor, key: Key, invocation: F) {
            drop(invocation);
            processor.check(key);
        }
        let invocation = ManuallyDrop::new(invocation);
        if key.among(self.first_key).is_none() {
            // SAFETY: the invocation is not used again, because this call does not return.
            reject_foreign(self, key, unsafe { std::ptr::read(&raw const *invocation) });
            unreachable!("the key of another graph is rejected");
        }
        invocation
    }

    pub(crate) fn stage_name(&self, stage: u8) -> &'static str {
        self.link.program().stages[usize::from(stage)].name
    }

    pub(crate) fn stage_counters(&self, stage: u8) -> &StageCounters {
        &self.observe.counters.stages[usize::from(stage)]
    }

    /// The clock's time after `duration`; `u64::MAX` (never) if the clock does not reach it.
    pub(crate) fn deadline_after(&self, duration: Duration) -> u64 {
        self.now().saturating_add(nanoseconds(duration))
    }
}

impl<'p> From<&'p Processor> for ProcessorRef<'p> {
    #[inline(always)]
    fn from(processor: &'p Processor) -> Self {
        // SAFETY: the pointer is to a processor that is borrowed for `'p`.
        unsafe { Self::from_raw(NonNull::from(processor).cast()) }
    }
}

impl<'p> ProcessorRef<'p> {
    /// The processor.
    #[inline(always)]
    pub(crate) fn get(self) -> &'p Processor {
        // SAFETY: `From` made it from a `&'p Processor`, and nothing else uses `from_raw`.
        unsafe { self.as_raw().cast::<Processor>().as_ref() }
    }
}
