//! What all processors of one program share.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::mailbox::mailbox::{Inbox, Mailbox};
use crate::memory::region::Region;
use crate::memory::slab::RetiredChunks;
use crate::metrics::counters::ProcessorCounters;
use crate::metrics::view::{ProcessorView, Profile};
use crate::operation::envelope::Envelope;
use crate::panic::catch_panic;
use crate::program::processor_id::ProcessorId;
use crate::stage::cohort_defaults::CohortDefaults;
use crate::stage::declaration::StageDeclaration;

/// How far a program's life has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Phase {
    /// Serving.
    Running,
    /// No new work is taken in; what is under way is finished.
    Draining,
    /// What is left is ended.
    Ending,
}

pub(crate) struct Program {
    pub(crate) id: u64,
    pub(crate) stages: Vec<StageDeclaration>,
    pub(crate) max_operations: usize,
    pub(crate) cohorts: CohortDefaults,
    pub(crate) mailboxes: Vec<Arc<Mailbox>>,
    pub(crate) counters: Vec<Arc<ProcessorCounters>>,
    /// Whether somebody takes a trace.
    pub(crate) traced: AtomicBool,
    phase: AtomicU8,
    /// Processors that may still have operations. A processor that sends something first says that
    /// it is busy; so when this is zero after the start, nothing is alive and nothing under way.
    busy: AtomicUsize,
    /// Envelopes that could not be sent any more.
    strays: Mutex<Vec<Envelope>>,
    remains: Mutex<Vec<RetiredChunks>>,
}

impl Program {
    pub(crate) fn new(
        id: u64,
        stages: Vec<StageDeclaration>,
        max_operations: usize,
        processors: usize,
        cohorts: CohortDefaults,
    ) -> Arc<Self> {
        let count = stages.len();
        Arc::new(Self {
            id,
            stages,
            max_operations,
            cohorts,
            mailboxes: (0..processors).map(|_| Arc::new(Mailbox::new(count))).collect(),
            counters: (0..processors).map(|_| ProcessorCounters::new(count, processors)).collect(),
            traced: AtomicBool::new(false),
            phase: AtomicU8::new(Phase::Running as u8),
            busy: AtomicUsize::new(processors),
            strays: Mutex::new(Vec::new()),
            remains: Mutex::new(Vec::new()),
        })
    }

    pub(crate) fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::Running,
            1 => Phase::Draining,
            _ => Phase::Ending,
        }
    }

    pub(crate) fn advance(&self, phase: Phase) {
        if self.phase.fetch_max(phase as u8, Ordering::AcqRel) < phase as u8 {
            self.tell_all();
        }
    }

    fn processor_busy(&self) {
        self.busy.fetch_add(1, Ordering::AcqRel);
    }

    fn processor_idle(&self) {
        if self.busy.fetch_sub(1, Ordering::AcqRel) == 1 && self.phase() > Phase::Running {
            self.tell_all();
        }
    }

    /// Whether no processor has anything left.
    pub(crate) fn is_idle(&self) -> bool {
        self.busy.load(Ordering::Acquire) == 0
    }

    pub(crate) fn keep(&self, remains: RetiredChunks) {
        self.remains.lock().unwrap_or_else(PoisonError::into_inner).push(remains);
    }

    pub(crate) fn keep_envelope(&self, envelope: Envelope) {
        self.strays.lock().unwrap_or_else(PoisonError::into_inner).push(envelope);
    }

    fn tell_all(&self) {
        for mailbox in &self.mailboxes {
            mailbox.mark(Inbox::Control);
        }
    }

    fn profile(&self) -> Profile {
        Profile {
            stages: self.stages.iter().map(|stage| stage.name).collect(),
            processors: self.counters.iter().map(|counters| counters.view()).collect(),
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // The last processor is gone. What still lies in a post was never started, or its caller
        // has gone: drop what travels in it while its memory, in `remains`, is still there.
        for mailbox in &self.mailboxes {
            for ring in mailbox.stages.iter().chain([&mailbox.replies]) {
                while let Some(envelope) = ring.pop() {
                    crate::operation::envelope::discard(envelope);
                }
            }
            // An order may carry a partition's state, whose destructor is foreign.
            mailbox.drop_commands();
        }
        let strays = self.strays.get_mut().unwrap_or_else(PoisonError::into_inner);
        strays.drain(..).for_each(crate::operation::envelope::discard);
        // The constructors of the stages hold the states that processors share.
        for StageDeclaration { make, end_of_cohort, .. } in self.stages.drain(..) {
            catch_panic(|| drop(make));
            catch_panic(|| drop(end_of_cohort));
        }
    }
}

/// A processor before its thread has it. May be sent; the processor may not.
///
/// ```
/// let seed = phalanx_core::Graph::new().build(1).remove(0);
/// std::thread::spawn(move || drop(seed.build(Box::new(|| ())))).join().unwrap();
/// ```
pub struct ProcessorBuilder {
    pub(crate) program: Arc<Program>,
    pub(crate) index: usize,
    pub(crate) share: BusyGuard,
    pub(crate) region: Option<Region>,
}

/// One processor's share in the count of the busy: from the beginning until it says otherwise, and
/// in any case no longer than it is there. So a processor that never grows, or fails, does not keep
/// the others from their end.
pub(crate) struct BusyGuard {
    program: Arc<Program>,
    busy: Cell<bool>,
}

impl BusyGuard {
    fn new(program: Arc<Program>) -> Self {
        Self { program, busy: Cell::new(true) }
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.busy.get()
    }

    pub(crate) fn mark_busy(&self) {
        if !self.busy.replace(true) {
            self.program.processor_busy();
        }
    }

    pub(crate) fn mark_idle(&self) {
        if self.busy.replace(false) {
            self.program.processor_idle();
        }
    }
}

impl Drop for BusyGuard {
    fn drop(&mut self) {
        self.mark_idle();
    }
}

impl ProcessorBuilder {
    pub(crate) fn new(program: Arc<Program>, index: usize) -> Self {
        Self { share: BusyGuard::new(program.clone()), program, index, region: None }
    }

    /// Has the processor's operations and [objects](crate::Pooled) live in this memory, as far as it
    /// reaches; beyond it they live in the general allocator's ([`ProcessorView::overflow_bytes`]).
    ///
    /// ```
    /// use phalanx_core::{Graph, Region};
    ///
    /// let seed = Graph::new().build(1).remove(0).with_region(Region::new(vec![0; 1 << 20]));
    /// let processor = seed.build(Box::new(|| ()));
    /// # drop(processor);
    /// ```
    #[must_use]
    pub fn with_region(mut self, region: Region) -> Self {
        self.region = Some(region);
        self
    }

    /// The processor's number, from zero.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The identity of the processor that this becomes.
    pub fn id(&self) -> ProcessorId {
        ProcessorId(self.program.mailboxes[self.index].identity)
    }

    /// A handle on the whole program.
    pub fn control(&self) -> Control {
        Control(self.program.clone())
    }
}

/// A program from outside: its life and its counters. May be used from any thread; inside, [`drain`](crate::drain).
#[derive(Clone)]
pub struct Control(pub(crate) Arc<Program>);

impl Control {
    /// Asks the program to finish what is under way ([`Phase::Draining`]); operations see it
    /// through [`Control::phase`]. Processors return from their loops when nothing is left.
    pub fn drain(&self) {
        self.0.advance(Phase::Draining);
    }

    /// Ends every operation; processors return when the last resource is back.
    pub fn end(&self) {
        self.0.advance(Phase::Ending);
    }

    /// How far the program's life has come.
    pub fn phase(&self) -> Phase {
        self.0.phase()
    }

    /// What one processor has counted so far.
    ///
    /// # Panics
    /// If there is no such processor.
    pub fn processor(&self, index: usize) -> ProcessorView {
        self.0.counters[index].view()
    }

    /// The bytes of a processor's second-level cache, as the program was told
    /// ([`Graph::cache_bytes`](crate::Graph::cache_bytes)) or assumes.
    pub fn cache_bytes(&self) -> usize {
        self.0.cohorts.cache()
    }

    /// How many processors the program has.
    pub fn processors(&self) -> usize {
        self.0.counters.len()
    }

    /// The stages' names in wavefront order.
    pub fn stages(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.0.stages.iter().map(|stage| stage.name)
    }

    /// What was counted so far.
    pub fn profile(&self) -> Profile {
        self.0.profile()
    }
}
