//! Requests of a processor that have not been replied to.

use std::cell::Cell;

use crate::memory::numbered::Numbered;
use crate::operation::processor_ref::ProcessorRef;

/// The handler of a reply.
pub(crate) type ReplyHandler = Box<dyn FnOnce(ProcessorRef<'_>)>;

/// The requests of one processor that have no reply yet.
#[derive(Default)]
pub(crate) struct PendingRequests {
    handlers: Numbered<ReplyHandler>,
    count: Cell<usize>,
}

impl PendingRequests {
    /// Whether any requests are pending.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.count.get() > 0
    }

    pub(crate) fn add(&self, handler: ReplyHandler) -> u32 {
        self.count.set(self.count.get() + 1);
        self.handlers.add(handler)
    }

    /// Takes the handler of a request, which gets exactly one reply.
    pub(crate) fn take(&self, ticket: u32) -> ReplyHandler {
        self.count.set(self.count.get() - 1);
        self.handlers.remove(ticket)
    }
}
