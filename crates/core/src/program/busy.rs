//! One processor's share in the life of its program: whether it has work, and whether it exists.
//!
//! A processor goes through three states: not built, open, closed. A processor that is never built or that fails is
//! closed as well. Senders put messages into its mailbox in all three states. Messages sent before it is built wait for
//! it. No message waits in a closed mailbox: envelopes return to their callers, whose calls are cancelled, and requests
//! get a reply.
//!
//! Closing, on the thread that drops the processor or its builder:
//!
//! 1. The thread stores `CLOSED` to the mailbox's parking state.
//! 2. The thread executes a sequentially consistent fence.
//! 3. The thread takes all messages out of the mailbox ([`Program::return_if_closed`]).
//! 4. The thread marks the processor as idle.
//!
//! Sending, on any processor's thread (`processor/remote/outbox.rs`):
//!
//! 1. The sender puts messages into inboxes and marks them.
//! 2. The sender executes a sequentially consistent fence, which is part of
//!    [`notify`](crate::mailbox::parking::Parking::notify).
//! 3. The sender loads the parking state. If it is `CLOSED`, the sender takes all messages out of the mailbox.
//!
//! A thread without an outbox sends only commands, and takes them out in the same way
//! ([`push_external_command`](crate::mailbox::mailbox::Mailbox::push_external_command)).
//!
//! No interleaving leaves a message in a closed mailbox. One of the two fences comes first (Dekker's argument): if it
//! is the sender's, the closing thread finds the message; if it is the closing thread's, the sender finds `CLOSED`.
//! Several threads may empty a mailbox at the same time, because a ring gives each message to exactly one consumer. A
//! consumer cannot find a message behind one that another sender is still writing; that sender finds it afterwards.
//! `loom.rs` checks this in `no_message_stays_in_a_closed_mailbox`.
//!
//! A returned envelope reaches its caller's processor through a list, so that a full ring cannot delay it. A processor
//! that waits for remote operations or replies counts as busy, so the program does not end before they return.

use std::cell::Cell;
use std::sync::Arc;

use crate::program::program::Program;

/// Busy guard: one processor's share of the busy count. The processor counts as busy from the start until it marks
/// itself as idle. Dropping the guard closes its mailbox and removes it from the count. A processor that is never built
/// or that fails thus does not keep the others from shutting down.
pub(crate) struct BusyGuard {
    pub(crate) program: Arc<Program>,
    index: usize,
    busy: Cell<bool>,
}

impl BusyGuard {
    pub(crate) fn new(program: Arc<Program>, index: usize) -> Self {
        Self { program, index, busy: Cell::new(true) }
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.busy.get()
    }

    /// Marks the processor as busy, before other processors can observe its work.
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
        self.program.mailboxes[self.index].parking.close();
        self.program.return_if_closed(self.index);
        self.mark_idle();
    }
}
