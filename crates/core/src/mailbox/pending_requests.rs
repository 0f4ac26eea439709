//! Requests of a processor that have not been replied to.

use std::cell::{Cell, RefCell};

use crate::operation::processor_ref::ProcessorRef;

/// The handler of a reply.
pub(crate) type ReplyHandler = Box<dyn FnOnce(ProcessorRef<'_>)>;

/// The requests of one processor that have no reply yet.
#[derive(Default)]
pub(crate) struct PendingRequests {
    handlers: RefCell<Vec<Option<ReplyHandler>>>,
    free: RefCell<Vec<u32>>,
    outstanding: Cell<usize>,
}

impl PendingRequests {
    /// Whether there are any.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.outstanding.get() > 0
    }

    pub(crate) fn add(&self, handler: ReplyHandler) -> u32 {
        self.outstanding.set(self.outstanding.get() + 1);
        let mut handlers = self.handlers.borrow_mut();
        let ticket = self.free.borrow_mut().pop().unwrap_or_else(|| {
            handlers.push(None);
            (handlers.len() - 1) as u32
        });
        handlers[ticket as usize] = Some(handler);
        ticket
    }

    pub(crate) fn take(&self, ticket: u32) -> ReplyHandler {
        let handler = self.handlers.borrow_mut()[ticket as usize].take();
        self.free.borrow_mut().push(ticket);
        self.outstanding.set(self.outstanding.get() - 1);
        handler.expect("a request is replied to once")
    }
}
