//! A processor's mailbox: all messages from other threads.
//!
//! The mailbox has one bounded ring per stage for invocations, one for replies, one for commands and one for wake-ups;
//! a list of commands from threads that have no outbox for this processor; a mask of the non-empty inboxes; and the
//! parking state. Only the owning processor takes messages out.

use std::sync::atomic::AtomicU32;

use crate::mailbox::command::Command;
use crate::mailbox::parking::Parking;
use crate::operation::envelope::Envelope;
use crate::operation::id::OperationId;
use crate::panic::catch_panic;
use crate::queue::ring::Ring;
use crate::stage_set::{MAX_STAGES, StageSet};
use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering, lock};

/// The capacity of rings in loom models and under Miri, where initialising the full-size rings of a program takes a
/// second.
const SMALL: usize = if cfg!(loom) { 2 } else { 64 };
/// The capacity of the ring of one stage of one processor, in invocations from other processors. When the ring is full,
/// senders keep invocations in their outboxes and retry after the next cohort.
const STAGE_RING: usize = if cfg!(any(miri, loom)) { SMALL } else { 1024 };
const REPLY_RING: usize = if cfg!(any(miri, loom)) { SMALL } else { 1024 };
/// The capacity of the ring of commands. Commands are few: one per processor of an ended session, per cancelled remote
/// child, per partition move, per processor with a replica of a revoked value, and per reply to a request.
const COMMAND_RING: usize = if cfg!(any(miri, loom)) { SMALL } else { 256 };
/// The capacity of the ring of wake-ups from foreign threads. When it is full, [`Mailbox::wake_all`] is
/// set and the processor polls every suspended operation: a wake-up may be late, but is never lost.
const WAKE_RING: usize = if cfg!(any(miri, loom)) { SMALL } else { 1024 };

/// One of the inboxes of a mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inbox {
    Stage(u8),
    Replies,
    Wakes,
    /// Envelopes that were returned directly. Also marked to wake the processor without a message.
    Returned,
    Commands,
}

impl Inbox {
    fn bit(self) -> u64 {
        match self {
            Self::Stage(stage) => 1 << stage,
            Self::Replies => 1 << 60,
            Self::Wakes => 1 << 61,
            Self::Returned => 1 << 62,
            Self::Commands => 1 << 63,
        }
    }
}

/// A set of inboxes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InboxSet(u64);

impl InboxSet {
    pub(crate) fn of(inbox: Inbox) -> Self {
        Self(inbox.bit())
    }

    pub(crate) fn insert(&mut self, inbox: Inbox) {
        self.0 |= inbox.bit();
    }

    pub(crate) fn contains(self, inbox: Inbox) -> bool {
        self.0 & inbox.bit() != 0
    }

    /// The stages whose invocations are in the set.
    pub(crate) fn stages(self) -> StageSet {
        StageSet::from_bits(self.0).before(MAX_STAGES)
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// The ready mask, with one bit per inbox. A sender fills an inbox and then marks it; the owner takes the marks and
/// then empties the inboxes. Both modify the word with a read-modify-write operation. If they race, the owner either
/// sees the mark, and then also the message, or the mark remains for its next check.
#[derive(Default)]
pub(crate) struct ReadyMask(AtomicU64);

impl ReadyMask {
    pub(crate) fn mark(&self, inbox: Inbox) {
        self.mark_all(InboxSet::of(inbox));
    }

    pub(crate) fn mark_all(&self, InboxSet(bits): InboxSet) {
        self.0.fetch_or(bits, Ordering::AcqRel);
    }

    /// Takes and clears all marks.
    pub(crate) fn take(&self) -> InboxSet {
        if self.is_empty() { InboxSet(0) } else { InboxSet(self.0.swap(0, Ordering::AcqRel)) }
    }

    /// The marked inboxes.
    pub(crate) fn peek(&self) -> InboxSet {
        InboxSet(self.0.load(Ordering::Relaxed))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.peek().is_empty()
    }
}

/// The part of a processor that other threads access.
pub(crate) struct Mailbox {
    /// The processor's identity; unique in the process and never reused.
    pub(crate) identity: u32,
    pub(crate) stages: Box<[Ring<Envelope>]>,
    pub(crate) replies: Ring<Envelope>,
    pub(crate) commands: Ring<Command>,
    /// Commands from threads without an outbox for this processor, that is, other programs and foreign threads. Each
    /// releases the resource of a handle that was dropped elsewhere, so the number of handles bounds the list.
    external_commands: Mutex<Vec<Command>>,
    /// Envelopes of this processor that returned without passing through the ring, because no processor accepted them
    /// or the one that did has ended. The slab bounds the list.
    returned: Mutex<Vec<Envelope>>,
    pub(crate) wakes: Ring<OperationId>,
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
            returned: Mutex::new(Vec::new()),
            wakes: Ring::new(WAKE_RING),
            wake_all: AtomicBool::new(false),
            pending: ReadyMask::default(),
            parking: Parking::default(),
        }
    }

    /// Wakes the operation with this id, from a foreign thread.
    pub(crate) fn wake(&self, id: OperationId) {
        if self.wakes.push(id).is_err() {
            self.wake_all.store(true, Ordering::Release);
        }
        self.mark(Inbox::Wakes);
    }

    /// Pushes a command from any thread.
    pub(crate) fn push_external_command(&self, command: Command) {
        lock(&self.external_commands).push(command);
        self.mark(Inbox::Commands);
        // The processor may have ended since this thread looked it up (`program/busy.rs`).
        self.parking.is_closed().then(|| self.drop_commands());
    }

    /// The number of waiting commands.
    pub(crate) fn commands_waiting(&self) -> usize {
        self.commands.len() + lock(&self.external_commands).len()
    }

    /// Takes the commands pushed by other threads.
    pub(crate) fn take_external_commands(&self) -> Vec<Command> {
        std::mem::take(&mut *lock(&self.external_commands))
    }

    /// Returns an envelope of this processor, from any thread.
    pub(crate) fn push_returned(&self, envelope: Envelope) {
        lock(&self.returned).push(envelope);
        self.mark(Inbox::Returned);
    }

    /// Takes the returned envelopes.
    pub(crate) fn take_returned(&self) -> Vec<Envelope> {
        std::mem::take(&mut *lock(&self.returned))
    }

    /// Marks `inbox` and wakes the processor if it is parked. Returns `true` if this call woke it.
    pub(crate) fn mark(&self, inbox: Inbox) -> bool {
        self.mark_all(InboxSet::of(inbox))
    }

    /// Like [`mark`](Self::mark), but for several inboxes.
    pub(crate) fn mark_all(&self, inboxes: InboxSet) -> bool {
        self.pending.mark_all(inboxes);
        self.parking.notify()
    }

    /// Wakes the processor without a message, if it is parked. Returns `true` if this call woke it.
    pub(crate) fn wake_processor(&self) -> bool {
        self.mark(Inbox::Returned)
    }

    /// Drops commands that will not run. The destructors of their captures are foreign code.
    pub(crate) fn drop_commands(&self) {
        while let Some(command) = self.commands.pop() {
            catch_panic(|| drop(command));
        }
        for command in self.take_external_commands() {
            catch_panic(|| drop(command));
        }
    }

    /// Whether the wake-up ring has overflowed since the last call.
    pub(crate) fn take_wake_all(&self) -> bool {
        self.wake_all.load(Ordering::Relaxed) && self.wake_all.swap(false, Ordering::AcqRel)
    }
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        self.drop_commands();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// As a sender that has found the mailbox before the processor's end.
    #[test]
    fn a_command_for_a_processor_that_has_ended_is_dropped_at_once() {
        let (mailbox, connection) = (Mailbox::new(1), Arc::new(()));
        let sent = connection.clone();
        mailbox.parking.close();
        mailbox.push_external_command(Command::new(move |_| drop(sent)));
        assert_eq!(Arc::strong_count(&connection), 1);
    }
}
