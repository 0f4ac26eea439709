//! Requests of a processor that have not been replied to.

use std::cell::{Cell, RefCell};

use crate::operation::processor_ref::ProcessorRef;

/// The handler of a reply.
pub(crate) type Then = Box<dyn FnOnce(ProcessorRef<'_>)>;

/// The handlers of one processor's outstanding replies.
#[derive(Default)]
pub(crate) struct PendingReplies {
    handlers: RefCell<Vec<Option<Then>>>,
    free: RefCell<Vec<u32>>,
    outstanding: Cell<usize>,
}

impl PendingReplies {
    /// Whether a reply is outstanding.
    #[inline]
    pub(crate) fn are_outstanding(&self) -> bool {
        self.outstanding.get() > 0
    }

    pub(crate) fn add(&self, then: Then) -> u32 {
        self.outstanding.set(self.outstanding.get() + 1);
        let mut handlers = self.handlers.borrow_mut();
        let ticket = self.free.borrow_mut().pop().unwrap_or_else(|| {
            handlers.push(None);
            (handlers.len() - 1) as u32
        });
        handlers[ticket as usize] = Some(then);
        ticket
    }

    pub(crate) fn take(&self, ticket: u32) -> Then {
        let then = self.handlers.borrow_mut()[ticket as usize].take();
        self.free.borrow_mut().push(ticket);
        self.outstanding.set(self.outstanding.get() - 1);
        then.expect("a request is replied to once")
    }
}
