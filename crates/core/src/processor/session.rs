//! The sessions of a processor: ending them, and releasing their resources.

use crate::panic::catch_panic;
use crate::processor::processor::Processor;
use crate::processor::remote::commands::reply;
use crate::session::table::{Resource, Settled};

impl Processor {
    /// Releases a resource of a session. Notifies the session's waiters if it was the last one.
    pub(crate) fn release_session(&self, session: u32, resource: Resource) {
        self.deliver(self.waiting.sessions.release(session, resource));
    }

    /// Replies to and wakes the waiters of a session that has settled here.
    #[inline]
    pub(crate) fn deliver(&self, Settled { replies, wakers }: Settled) {
        replies.into_iter().for_each(reply);
        wakers.into_iter().for_each(|waker| catch_panic(|| waker.wake()));
    }

    /// Ends a session: cancels its operations here and on other processors.
    pub(crate) fn end_session(&self, session: u32) {
        // Ends the other processors' parts first, so that they stop accepting operations while those here are
        // cancelled.
        if let Some(group) = self.waiting.sessions.mark_ended(session) {
            self.end_group_elsewhere(session, &group);
        }
        self.cancel_each(&self.waiting.sessions.close(self.slab(), session));
    }
}
