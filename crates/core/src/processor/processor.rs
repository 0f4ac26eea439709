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
use std::time::Duration;

use crate::control::input_throttle::InputThrottle;
use crate::error::{CallError, Refused};
use crate::mailbox::mailbox::Mailbox;
use crate::mailbox::message::Outbound;
use crate::mailbox::pending_replies::PendingReplies;
use crate::mailbox::registry;
use crate::memory::pool::Pools;
use crate::memory::slab::Slab;
use crate::memory::slab::stride;
use crate::metrics::counter::Counter;
use crate::metrics::counters::{ProcessorCounters, StageCounters};
use crate::operation::interleave_ring::InterleaveRing;
use crate::operation::join_table::JoinTable;
use crate::operation::processor_ref::ProcessorRef;
use crate::operation::published::Site;
use crate::operation::slot::Slot;
use crate::panic::{PanicReport, panic_error};
use crate::program::program::Control;
use crate::program::program::Seed;
use crate::program::program::{BusyGuard, Program};
use crate::queue::local::StageQueue;
use crate::queue::local::StarvationGuard;
use crate::queue::timer_wheel::TimerWheel;
use crate::session::table::SessionTable;
use crate::stage::batching::BatchState;
use crate::stage::cohort_defaults::bound;
use crate::stage::declaration::StageDeclaration;
use crate::stage::inline_state::InlineState;
use crate::stage::key::Key;
use crate::stage::local::LocalStage;
use crate::stage::local::StageRuntime;
use crate::stage::queue_delay::QueueDelay;
use crate::stage::seen_types::SeenTypes;
use crate::stage::thresholds::Thresholds;
use crate::stage::tuner_state::TunerState;
use crate::stage_set::StageSet;

/// One thread's share of a program. Made from a [`Seed`] on the thread that runs it.
///
/// ```compile_fail
/// fn leaves_its_thread(processor: phalanx_core::Processor) {
///     std::thread::spawn(move || drop(processor)); // a processor is not `Send`
/// }
/// ```
pub struct Processor {
    /// Unique among all processors of the process, ever; never reused.
    identity: u32,
    /// For wakers; reused after the processor's end.
    number: u16,
    index: usize,
    /// Stage zero of the graph whose handles are good here.
    first: Key,
    program: Arc<Program>,
    pub(crate) post: Arc<Mailbox>,
    pub(crate) counters: Arc<ProcessorCounters>,
    slab: Slab,
    pools: Rc<Pools>,
    pub(crate) stages: Box<[LocalStage]>,
    pub(crate) thresholds: Thresholds,
    pub(crate) holding: StageSet,
    pub(crate) direct: InlineState,
    pub(crate) auto: TunerState,
    pub(crate) batching: BatchState,
    /// One bit for each balanced stage.
    pub(crate) balanced: StageSet,
    /// One bit for each stage whose operations may be sent to its home.
    pub(crate) homed: StageSet,
    /// One bit for each stage at which requests begin, if the cache is kept for those on their way.
    pub(crate) entries: StageSet,
    /// One bit for each stage that has something to run.
    pub(crate) ready: Cell<StageSet>,
    pub(crate) now: Cell<u64>,
    /// The operation that is being polled. Stays until the next one is, or the cohort is over.
    pub(crate) running: Cell<Option<Slot>>,
    /// Where the arcs of the stage whose cohort runs begin in the counters.
    pub(crate) arc_row: Cell<*const Counter>,
    /// Whether a turn is under way.
    turning: Cell<bool>,
    pub(crate) outbox: RefCell<VecDeque<Outbound>>,
    pub(crate) replies: PendingReplies,
    pub(crate) sessions: SessionTable,
    pub(crate) congestion: QueueDelay,
    pub(crate) intake: InputThrottle,
    pub(crate) joins: JoinTable,
    /// Empty between cohorts.
    pub(crate) interleaved: InterleaveRing,
    pub(crate) wheel: RefCell<TimerWheel>,
    pub(crate) seen: SeenTypes,
    pub(crate) share: BusyGuard,
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
#[inline(always)]
#[track_caller]
pub(crate) fn current<R>(f: impl FnOnce(&Processor) -> R) -> R {
    #[cold]
    #[inline(never)]
    #[track_caller]
    fn nowhere<F>(f: F) -> ! {
        drop(f);
        panic!(
            "this thread runs no program: stages are invoked, timers and events awaited and \
             sessions made by the operations of a running Runtime, or by its `start`"
        );
    }
    // What `f` has captured stays in registers, having no destructor until it is called.
    let f = ManuallyDrop::new(f);
    match CURRENT.get() {
        // SAFETY: the pointer is valid while it is set (top of the file).
        Some(processor) => ManuallyDrop::into_inner(f)(unsafe { processor.as_ref() }),
        None => nowhere(ManuallyDrop::into_inner(f)),
    }
}

/// Runs `f` if the thread's current processor is the one with this identity.
#[inline]
pub(crate) fn on<R>(identity: u32, f: impl FnOnce(&Processor) -> R) -> Option<R> {
    // SAFETY: the pointer is valid while it is set (top of the file).
    let processor = CURRENT.get().map(|processor| unsafe { processor.as_ref() })?;
    (processor.identity == identity).then(|| f(processor))
}

impl Seed {
    /// The processor, on the thread that will run it. `unpark` ends its sleep from other threads.
    pub fn grow(self, unpark: crate::mailbox::parking::Unpark) -> Processor {
        let Seed { program, index, share, region } = self;
        let post = program.posts[index].clone();
        post.parking.install(unpark);
        let processors = program.posts.len();
        let stages = program.stages.iter().map(|declared| {
            let local = (declared.make)(index, processors);
            let rules = StageRuntime::new(declared);
            let least = stride(0) + rules.beside;
            LocalStage {
                queue: StageQueue::new(declared.capacity),
                cap: StarvationGuard::default(),
                state: Rc::as_ptr(&local.state).cast(),
                local: Box::new(local),
                max_cohort: Cell::new(
                    declared.max_cohort.unwrap_or_else(|| bound(program.cohorts.cache(), least)),
                ),
                cohort_time: declared.cohort_time,
                lifo: declared.lifo,
                rules: Box::new(rules),
            }
        });
        let stages: Box<[LocalStage]> = stages.collect();
        let set = |of: fn(&StageDeclaration) -> bool| StageSet::select(&program.stages, of);
        let balanced = set(|stage| stage.balanced);
        let homed = set(|stage| stage.state_bytes > 0);
        let entries = set(|stage| stage.entry);
        let number = registry::register(post.clone());
        let processor = Processor {
            identity: post.identity,
            number,
            index,
            first: Key::new(program.id, 0),
            post,
            counters: program.counters[index].clone(),
            slab: Slab::new(program.max_operations, number, region),
            pools: Rc::default(),
            thresholds: Thresholds::new(&stages),
            holding: StageSet::select(&stages, |stage| stage.rules.filling.is_some()),
            auto: TunerState::new(&program.stages, &stages, program.cohorts),
            direct: InlineState::new(&program.stages, &stages, &program.counters[index]),
            batching: BatchState::default(),
            stages,
            balanced,
            homed,
            entries,
            ready: Cell::default(),
            now: Cell::new(0),
            running: Cell::new(None),
            arc_row: Cell::new(std::ptr::null()),
            turning: Cell::new(false),
            outbox: RefCell::default(),
            replies: PendingReplies::default(),
            sessions: SessionTable::default(),
            congestion: QueueDelay::default(),
            intake: InputThrottle::default(),
            joins: JoinTable::default(),
            interleaved: InterleaveRing::default(),
            wheel: RefCell::new(TimerWheel::new()),
            seen: SeenTypes::default(),
            share,
            program,
        };
        processor.set_running_stage(processor.stages.len());
        processor
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

    /// Timers armed here.
    pub fn timers(&self) -> usize {
        self.wheel.borrow().armed()
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

    pub(crate) fn pools(&self) -> &Rc<Pools> {
        &self.pools
    }

    /// Says whose cohort runs: a stage's, or nobody's (the number of stages).
    pub(crate) fn set_running_stage(&self, stage: usize) {
        let arcs = &self.counters.arcs[stage * self.stages.len()..];
        self.arc_row.set(arcs.as_ptr());
    }

    /// The stage whose cohort runs, or the number of stages.
    pub(crate) fn running_stage(&self) -> usize {
        let arcs = self.counters.local_arcs().as_ptr();
        let bytes = self.arc_row.get().addr() - arcs.addr();
        bytes / (size_of::<Counter>() * self.stages.len().max(1)) % (self.stages.len() + 1)
    }

    /// Counts what `f` queues as coming from a stage of another processor.
    pub(crate) fn on_behalf_of<R>(&self, processor: u16, stage: u8, f: impl FnOnce() -> R) -> R {
        let (processor, stage) = (usize::from(processor), usize::from(stage));
        let row = match processor == self.index {
            // A parcel to this processor, which another might have taken.
            true => self.counters.local_row(stage),
            false => self.counters.crossing_row(processor, stage),
        };
        let before = self.arc_row.replace(row.as_ptr());
        let result = f();
        self.arc_row.set(before);
        result
    }

    /// Enters a turn: the state of one turn is not made for another inside of it.
    pub(crate) fn in_turn<R>(&self, f: impl FnOnce() -> R) -> R {
        struct Over<'a>(&'a Cell<bool>);
        impl Drop for Over<'_> {
            fn drop(&mut self) {
                self.0.set(false);
            }
        }
        assert!(!self.turning.replace(true), "a processor's turn runs inside its own turn");
        let _over = Over(&self.turning);
        self.enter(f)
    }

    /// This processor's part of the state of a stage, whose key was checked.
    ///
    /// # Safety
    /// The stage was declared with a state of type `S`.
    #[inline]
    pub(crate) unsafe fn state<S: 'static>(&self, stage: u8) -> &S {
        let local = self.stage(usize::from(stage));
        debug_assert!(local.local.state.is::<S>());
        // SAFETY: the type by the caller's promise; the state lives as long as the processor.
        unsafe { &*local.state.cast::<S>() }
    }

    /// A count of this processor's part of a state, whose key was checked.
    ///
    /// # Safety
    /// As for [`Processor::state`].
    #[inline]
    pub(crate) unsafe fn state_rc<S: 'static>(&self, stage: u8) -> Rc<S> {
        let local = self.stage(usize::from(stage));
        debug_assert!(local.local.state.is::<S>());
        let state = local.state.cast::<S>();
        // SAFETY: the pointer is that of `local.state`, of the type that the caller promises; the
        // count that is taken goes into the new `Rc`.
        unsafe {
            Rc::increment_strong_count(state);
            Rc::from_raw(state)
        }
    }

    /// Refuses a handle of another graph. All that follows relies on it.
    #[inline]
    #[track_caller]
    pub(crate) fn check(&self, key: Key) {
        self.own_stage(key);
    }

    /// The same, and the number of the stage.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn own_stage(&self, key: Key) -> u8 {
        key.among(self.first).expect("a handle is used with the graph that made it")
    }

    /// The same before `invocation` is placed. Until then it is nobody's, so that no destructor
    /// keeps it in memory on the way into its slot.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn check_for<F>(&self, key: Key, invocation: F) -> ManuallyDrop<F> {
        #[cold]
        #[inline(never)]
        #[track_caller]
        fn strange<F>(processor: &Processor, key: Key, invocation: F) {
            drop(invocation);
            processor.check(key);
        }
        let invocation = ManuallyDrop::new(invocation);
        if key.among(self.first).is_none() {
            // SAFETY: not used again, since this does not return.
            strange(self, key, unsafe { std::ptr::read(&raw const *invocation) });
            unreachable!("a strange key is refused");
        }
        invocation
    }

    pub(crate) fn stage_name(&self, stage: u8) -> &'static str {
        self.program.stages[usize::from(stage)].name
    }

    pub(crate) fn stage_counters(&self, stage: u8) -> &StageCounters {
        &self.counters.stages[usize::from(stage)]
    }

    /// Arms a timer of this processor; its resolution is one millisecond.
    pub(crate) fn deadline_after(&self, duration: Duration) -> u64 {
        self.now.get().saturating_add(duration.as_nanos().try_into().unwrap_or(u64::MAX / 2))
    }
}

impl<'p> From<&'p Processor> for ProcessorRef<'p> {
    #[inline(always)]
    fn from(processor: &'p Processor) -> Self {
        // SAFETY: a processor, borrowed for `'p`.
        unsafe { Self::from_raw(NonNull::from(processor).cast()) }
    }
}

impl<'p> ProcessorRef<'p> {
    /// The processor.
    #[inline(always)]
    pub(crate) fn get(self) -> &'p Processor {
        // SAFETY: made from a `&'p Processor` by `From`, the only use of `from_raw`.
        unsafe { self.as_raw().cast::<Processor>().as_ref() }
    }
}

impl Processor {
    /// The error of a refused invocation.
    #[cold]
    pub(crate) fn refusal(&self, refused: Refused) -> CallError {
        refused.reason(|stage| self.stage_name(stage))
    }

    /// The error of an operation of `stage` that panicked.
    pub(crate) fn panic_error(&self, stage: u8, panic: &(dyn Any + Send)) -> CallError {
        panic_error(self.stage_name(stage), panic)
    }

    /// Keeps a report until the end of the cohort, which passes it to the world. Returns the error for
    /// the caller. The panic of an operation elsewhere is reported by its own processor.
    #[cold]
    pub(crate) fn note_panic(
        &self,
        stage: u8,
        operation: &'static str,
        site: Site,
        panic: &(dyn Any + Send),
    ) -> CallError {
        let error = self.panic_error(stage, panic);
        if let Some(report) = PanicReport::new(&error, operation, site, panic) {
            self.direct.panics.borrow_mut().push(report);
        }
        error
    }
}
