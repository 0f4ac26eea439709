//! A processor's post: everything that reaches it from other threads.
//!
//! One bounded ring per stage for operations that start here, one for replies that come home, one
//! for orders, one for wakers; a word that says which of them hold something; and the state of sleep. Only the
//! owning processor takes from it.

use std::num::NonZeroU64;
use std::sync::PoisonError;
use std::sync::atomic::AtomicU32;

use crate::mailbox::command::Command;
use crate::mailbox::parking::Parking;
use crate::operation::envelope::Envelope;
use crate::operation::id::OperationId;
use crate::panic::catch_panic;
use crate::queue::ring::Ring;
use crate::stage_set::{MAX_STAGES, StageSet};
use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering};

/// Operations that may wait at one stage of one processor for being taken in from others. A full
/// ring makes the sender keep them in its outbox and try again after its next cohort.
const STAGE_RING: usize = 1024;
const REPLY_RING: usize = 1024;
/// PendingReplies are few: one for each processor that an ended session has visited, or for a partition.
const COMMAND_RING: usize = 256;
/// Wake-ups from foreign threads that may wait. When it is full, [`Mailbox::wake_all`] is set and the
/// processor polls everything that is suspended: late, never lost.
const WAKE_RING: usize = 1024;

/// One of the inboxes of a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inbox {
    Stage(u8),
    Replies,
    Wakes,
    Control,
    Commands,
}

impl Inbox {
    fn bit(self) -> u64 {
        match self {
            Self::Stage(stage) => 1 << stage,
            Self::Replies => 1 << 60,
            Self::Wakes => 1 << 61,
            Self::Control => 1 << 62,
            Self::Commands => 1 << 63,
        }
    }
}

/// Which inboxes have been marked; taken by the owner.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadyInboxes(u64);

impl ReadyInboxes {
    pub(crate) fn contains(self, inbox: Inbox) -> bool {
        self.0 & inbox.bit() != 0
    }

    pub(crate) fn stages(self) -> StageSet {
        StageSet::from_bits(self.0).before(MAX_STAGES)
    }

    pub(crate) fn any(self) -> bool {
        self.0 != 0
    }
}

/// The word of marks. A sender fills an inbox and then marks it; the owner takes the marks and then
/// empties the inboxes. Both change the word by a read-modify-write, so of two that cross either
/// the owner sees the mark, and with it the filling, or the mark stays for the next time.
#[derive(Default)]
pub(crate) struct ReadyMask(AtomicU64);

impl ReadyMask {
    pub(crate) fn mark(&self, inbox: Inbox) {
        self.0.fetch_or(inbox.bit(), Ordering::AcqRel);
    }

    /// Takes all marks.
    pub(crate) fn take(&self) -> ReadyInboxes {
        match NonZeroU64::new(self.0.load(Ordering::Relaxed)) {
            None => ReadyInboxes(0),
            Some(_) => ReadyInboxes(self.0.swap(0, Ordering::AcqRel)),
        }
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }
}

/// What other threads share with one processor.
pub(crate) struct Mailbox {
    /// The processor's. Unique in the process, ever; never reused.
    pub(crate) identity: u32,
    pub(crate) stages: Box<[Ring<Envelope>]>,
    pub(crate) replies: Ring<Envelope>,
    pub(crate) commands: Ring<Command>,
    /// PendingReplies from those who have no outbox for this processor: other programs, and foreign threads.
    /// Each releases what a handle names that was dropped elsewhere, so the handles bound them.
    external_commands: Mutex<Vec<Command>>,
    wakes: Ring<OperationId>,
    wake_all: AtomicBool,
    pub(crate) pending: ReadyMask,
    pub(crate) parking: Parking,
}

impl Mailbox {
    pub(crate) fn new(stages: usize) -> Self {
        static IDENTITIES: AtomicU32 = AtomicU32::new(1);
        let identity = IDENTITIES
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| last.checked_add(1))
            .expect("fewer than 2³² processors in the life of a process");
        Self {
            identity,
            stages: (0..stages).map(|_| Ring::new(STAGE_RING)).collect(),
            replies: Ring::new(REPLY_RING),
            commands: Ring::new(COMMAND_RING),
            external_commands: Mutex::new(Vec::new()),
            wakes: Ring::new(WAKE_RING),
            wake_all: AtomicBool::new(false),
            pending: ReadyMask::default(),
            parking: Parking::default(),
        }
    }

    /// A foreign thread wakes the operation named `name`.
    pub(crate) fn wake(&self, id: OperationId) {
        if self.wakes.push(id).is_err() {
            self.wake_all.store(true, Ordering::Release);
        }
        self.mark(Inbox::Wakes);
    }

    /// Leaves an order, from any thread.
    pub(crate) fn push_external_command(&self, command: Command) {
        let commands = self.external_commands.lock();
        commands.unwrap_or_else(PoisonError::into_inner).push(command);
        self.mark(Inbox::Commands);
    }

    /// How many orders wait.
    pub(crate) fn commands_waiting(&self) -> usize {
        let outside = self.external_commands.lock().unwrap_or_else(PoisonError::into_inner);
        self.commands.len() + outside.len()
    }

    /// Takes the orders from outside.
    pub(crate) fn take_external_commands(&self) -> Vec<Command> {
        let commands = self.external_commands.lock();
        std::mem::take(&mut *commands.unwrap_or_else(PoisonError::into_inner))
    }

    /// ReadyInboxes `inbox` and wakes the processor if it sleeps. True if it slept.
    pub(crate) fn mark(&self, inbox: Inbox) -> bool {
        self.pending.mark(inbox);
        self.parking.notify()
    }

    /// Drops the orders that nobody follows any more. What an order has captured is foreign.
    pub(crate) fn drop_commands(&self) {
        while let Some(command) = self.commands.pop() {
            catch_panic(|| drop(command));
        }
        for command in self.take_external_commands() {
            catch_panic(|| drop(command));
        }
    }

    /// Takes one foreign wake-up.
    pub(crate) fn next_wake(&self) -> Option<OperationId> {
        self.wakes.pop()
    }

    /// Whether wake-ups were dropped since the last call.
    pub(crate) fn take_wake_all(&self) -> bool {
        self.wake_all.load(Ordering::Relaxed) && self.wake_all.swap(false, Ordering::AcqRel)
    }
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        self.drop_commands();
    }
}
