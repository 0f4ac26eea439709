//! The state shared by all processors of one program.

use std::sync::Arc;

use crate::mailbox::mailbox::Mailbox;
use crate::memory::chunks::Chunks;
use crate::metrics::counters::ProcessorCounters;
use crate::operation::envelope::{self, Envelope};
use crate::panic::catch_panic;
use crate::stage::declaration::StageDeclaration;
use crate::stage::settings::Settings;
use crate::sync::{AtomicBool, AtomicU8, AtomicUsize, Mutex, Ordering, lock};

/// The phase of a program's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Phase {
    /// The program accepts work.
    Running,
    /// The program accepts no new work and completes the work in progress.
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
    /// The number of processors that may still have operations. A processor marks itself as busy before it sends
    /// anything. So if the count is zero after the start, no operation is alive and none is in transit.
    busy: AtomicUsize,
    retired_chunks: Mutex<Vec<Chunks>>,
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
            retired_chunks: Mutex::new(Vec::new()),
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
            self.wake_processors();
        }
    }

    pub(super) fn processor_busy(&self) {
        self.busy.fetch_add(1, Ordering::AcqRel);
    }

    pub(super) fn processor_idle(&self) {
        if self.busy.fetch_sub(1, Ordering::AcqRel) == 1 && self.phase() > Phase::Running {
            self.wake_processors();
        }
    }

    /// Whether no processor has any work left.
    pub(crate) fn is_idle(&self) -> bool {
        self.busy.load(Ordering::Acquire) == 0
    }

    pub(crate) fn retire(&self, chunks: Chunks) {
        lock(&self.retired_chunks).push(chunks);
    }

    /// Returns an envelope to its caller's processor, from any thread. If that processor has ended, the contents are
    /// dropped with the program.
    pub(crate) fn return_envelope(&self, envelope: Envelope) {
        let caller = &self.mailboxes[envelope.caller()];
        // Unparking is the embedder's code.
        catch_panic(|| caller.push_returned(envelope));
    }

    /// Takes all messages out of a mailbox if it is closed. Call it after each send and after closing.
    pub(crate) fn return_if_closed(&self, index: usize) {
        if self.mailboxes[index].parking.is_closed() {
            self.return_messages(&self.mailboxes[index]);
        }
    }

    /// Returns the envelopes to their callers and drops the commands, which replies to requests.
    #[cold]
    fn return_messages(&self, mailbox: &Mailbox) {
        for ring in mailbox.stages.iter().chain([&mailbox.replies]) {
            while let Some(envelope) = ring.pop() {
                self.return_envelope(envelope);
            }
        }
        mailbox.drop_commands();
    }

    /// Wakes all processors, which then notice the phase.
    fn wake_processors(&self) {
        self.mailboxes.iter().for_each(|mailbox| _ = mailbox.wake_processor());
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // The last processor has ended, and with it the callers of all envelopes. Drop the contents while their memory,
        // in `retired_chunks`, is still allocated.
        for mailbox in &self.mailboxes {
            // A command may contain envelopes, or a partition's state, whose destructor is foreign code.
            mailbox.drop_commands();
            mailbox.take_returned().into_iter().for_each(envelope::discard);
        }
        // The constructors of the stages own the states that processors share.
        for StageDeclaration { make, end_of_cohort, .. } in self.stages.drain(..) {
            catch_panic(|| drop(make));
            catch_panic(|| drop(end_of_cohort));
        }
    }
}
