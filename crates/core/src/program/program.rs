//! The state shared by all processors of one program, and its control handle.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::mailbox::mailbox::{Inbox, Mailbox};
use crate::memory::chunks::Chunks;
use crate::memory::region::Region;
use crate::metrics::counters::ProcessorCounters;
use crate::metrics::view::{ProcessorView, Profile};
use crate::operation::envelope::Envelope;
use crate::panic::catch_panic;
use crate::program::processor_id::ProcessorId;
use crate::stage::declaration::StageDeclaration;
use crate::stage::settings::Settings;

/// The phase of a program's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Phase {
    /// The program accepts work.
    Running,
    /// The program accepts no new work and completes the rest.
    Draining,
    /// The program cancels the remaining work.
    Ending,
}

pub(crate) struct Program {
    pub(crate) id: u64,
    pub(crate) stages: Vec<StageDeclaration>,
    pub(crate) settings: Settings,
    pub(crate) mailboxes: Vec<Arc<Mailbox>>,
    pub(crate) counters: Vec<Arc<ProcessorCounters>>,
    /// Whether a trace is being taken.
    pub(crate) traced: AtomicBool,
    phase: AtomicU8,
    /// The number of processors that may still have operations. A processor marks itself as busy before
    /// it sends anything. So when the count is zero after the start, no operation is alive and none is
    /// in transit.
    busy: AtomicUsize,
    /// Envelopes that could no longer be delivered.
    strays: Mutex<Vec<Envelope>>,
    remains: Mutex<Vec<Chunks>>,
}

impl Program {
    pub(crate) fn new(
        id: u64,
        stages: Vec<StageDeclaration>,
        settings: Settings,
        processors: usize,
    ) -> Arc<Self> {
        let count = stages.len();
        Arc::new(Self {
            id,
            stages,
            settings,
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

    /// Whether no processor has any work left.
    pub(crate) fn is_idle(&self) -> bool {
        self.busy.load(Ordering::Acquire) == 0
    }

    pub(crate) fn keep(&self, remains: Chunks) {
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
        // The last processor is gone. The operations in the mailboxes never started, or their caller is
        // gone: drop their contents while the memory, in `remains`, is still allocated.
        for mailbox in &self.mailboxes {
            for ring in mailbox.stages.iter().chain([&mailbox.replies]) {
                while let Some(envelope) = ring.pop() {
                    crate::operation::envelope::discard(envelope);
                }
            }
            // A command may carry a partition's state, whose destructor is foreign.
            mailbox.drop_commands();
        }
        let strays = self.strays.get_mut().unwrap_or_else(PoisonError::into_inner);
        strays.drain(..).for_each(crate::operation::envelope::discard);
        // The constructors of the stages own the states that processors share.
        for StageDeclaration { make, end_of_cohort, .. } in self.stages.drain(..) {
            catch_panic(|| drop(make));
            catch_panic(|| drop(end_of_cohort));
        }
    }
}

/// The builder of a processor. It may be sent to the processor's thread; the processor itself may not.
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

/// Busy guard: one processor's share of the busy count. The processor counts as busy from the beginning
/// until it marks itself as idle, and stops counting when the guard is dropped. A processor that is
/// never built, or fails, thus does not keep the others from shutting down.
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

    /// Places the processor's operations and [objects](crate::Pooled) in this memory. When the region
    /// is full, further memory comes from the general allocator ([`ProcessorView::overflow_bytes`]).
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

    /// The processor's index, from zero.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The identity of the processor that this builds.
    pub fn id(&self) -> ProcessorId {
        ProcessorId(self.program.mailboxes[self.index].identity)
    }

    /// Returns a control handle on the whole program.
    pub fn control(&self) -> Control {
        Control(self.program.clone())
    }
}

/// A control handle on a program: its phase and its counters. Usable from any thread; within an
/// operation, see [`drain`](crate::drain).
#[derive(Clone)]
pub struct Control(pub(crate) Arc<Program>);

impl Control {
    /// Requests shutdown after the current work ([`Phase::Draining`]). Operations can read the phase by
    /// [`Control::phase`]. Processors return from their loops when no work is left.
    pub fn drain(&self) {
        self.0.advance(Phase::Draining);
    }

    /// Cancels every operation ([`Phase::Ending`]). Processors return when the last resource is
    /// released.
    pub fn end(&self) {
        self.0.advance(Phase::Ending);
    }

    /// The current phase of the program.
    pub fn phase(&self) -> Phase {
        self.0.phase()
    }

    /// A snapshot of one processor's counters.
    ///
    /// # Panics
    /// If `index` is out of range.
    pub fn processor(&self, index: usize) -> ProcessorView {
        self.0.counters[index].view()
    }

    /// Nanoseconds that processor number `index` has slept, except for a sleep that it is in now; and
    /// whether it is in one.
    ///
    /// # Panics
    /// If `index` is out of range.
    pub fn parked(&self, index: usize) -> (u64, bool) {
        let parked = self.0.counters[index].parked.get();
        (parked, self.0.mailboxes[index].parking.is_parked())
    }

    /// The bytes of a processor's second-level cache, as set by
    /// [`Graph::cache_bytes`](crate::Graph::cache_bytes) or assumed.
    pub fn cache_bytes(&self) -> usize {
        self.0.settings.cache()
    }

    /// The number of processors of the program.
    pub fn processors(&self) -> usize {
        self.0.counters.len()
    }

    /// The stages' names in wavefront order.
    pub fn stages(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.0.stages.iter().map(|stage| stage.name)
    }

    /// A snapshot of all counters.
    pub fn profile(&self) -> Profile {
        self.0.profile()
    }
}
