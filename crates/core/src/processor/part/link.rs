//! A processor's connection to its program and to other processors.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;

use crate::mailbox::mailbox::Mailbox;
use crate::mailbox::message::Outbound;
use crate::mailbox::pending_replies::PendingReplies;
use crate::program::program::{BusyGuard, Program};

pub(crate) struct Link {
    program: Arc<Program>,
    mailbox: Arc<Mailbox>,
    outbox: RefCell<VecDeque<Outbound>>,
    pub(crate) replies: PendingReplies,
    pub(crate) busy: BusyGuard,
}

impl Link {
    pub(crate) fn new(program: Arc<Program>, mailbox: Arc<Mailbox>, busy: BusyGuard) -> Self {
        let (outbox, replies) = Default::default();
        Self { program, mailbox, outbox, replies, busy }
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

    pub(crate) fn push_outbound(&self, outbound: Outbound) {
        self.outbox.borrow_mut().push_back(outbound);
    }

    pub(crate) fn pop_outbound(&self) -> Option<Outbound> {
        self.outbox.borrow_mut().pop_front()
    }
}
