//! A processor's connection to its program and to other processors.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::Arc;

use crate::mailbox::mailbox::{InboxSet, Mailbox};
use crate::mailbox::message::Outbound;
use crate::mailbox::pending_requests::PendingRequests;
use crate::program::busy::BusyGuard;
use crate::program::program::Program;

pub(crate) struct Link {
    program: Arc<Program>,
    mailbox: Arc<Mailbox>,
    outbox: RefCell<VecDeque<Outbound>>,
    /// A buffer that flushes reuse.
    filled: Cell<Vec<(usize, InboxSet)>>,
    pub(crate) requests: PendingRequests,
    pub(crate) busy: BusyGuard,
}

impl Link {
    pub(crate) fn new(program: Arc<Program>, mailbox: Arc<Mailbox>, busy: BusyGuard) -> Self {
        let (outbox, filled) = (RefCell::default(), Cell::default());
        Self { program, mailbox, outbox, filled, requests: PendingRequests::default(), busy }
    }

    #[inline(always)]
    pub(crate) fn program(&self) -> &Arc<Program> {
        &self.program
    }

    #[inline(always)]
    pub(crate) fn mailbox(&self) -> &Mailbox {
        &self.mailbox
    }

    /// Messages in the outbox.
    #[inline(always)]
    pub(crate) fn outbound(&self) -> usize {
        self.outbox.borrow().len()
    }

    /// An empty list of the inboxes that a flush fills on each processor.
    pub(crate) fn begin_flush(&self) -> Vec<(usize, InboxSet)> {
        self.filled.take()
    }

    /// Marks the inboxes that a flush has filled, and wakes each sleeping processor once. Takes back the messages to
    /// processors that have ended. Returns the number of processors woken.
    pub(crate) fn end_flush(&self, mut filled: Vec<(usize, InboxSet)>) -> u64 {
        let mut wakes = 0;
        for (target, inboxes) in filled.drain(..) {
            wakes += u64::from(self.program.mailboxes[target].mark_all(inboxes));
            self.program.return_if_closed(target);
        }
        self.filled.set(filled);
        wakes
    }

    pub(crate) fn push_outbound(&self, outbound: Outbound) {
        self.outbox.borrow_mut().push_back(outbound);
    }

    pub(crate) fn pop_outbound(&self) -> Option<Outbound> {
        self.outbox.borrow_mut().pop_front()
    }
}
