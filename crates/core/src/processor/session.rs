//! The sessions of a processor: ending them, and releasing their resources.

use crate::panic::catch_panic;
use crate::processor::processor::Processor;
use crate::processor::remote::commands::reply;
use crate::session::table::{SessionRecord, Settled};

impl Processor {
    /// Runs a change of a session's record that releases something, and delivers what waited for it.
    pub(crate) fn release_session(&self, session: u32, change: fn(&mut SessionRecord)) {
        self.waiting.sessions.with(session, change);
        self.deliver(self.waiting.sessions.settle(session));
    }

    /// Replies to and wakes the waiters of a session that has settled here.
    #[inline]
    pub(crate) fn deliver(&self, Settled { replies, wakers }: Settled) {
        replies.into_iter().for_each(reply);
        wakers.into_iter().for_each(|waker| catch_panic(|| waker.wake()));
    }

    /// Ends a session: cancels its operations here and on other processors.
    pub(crate) fn end_session(&self, session: u32) {
        // Other processors first, so that nothing enters there any more while the operations here are
        // cancelled.
        if let Some(group) = self.waiting.sessions.mark_ended(session) {
            self.end_group_elsewhere(session, &group);
        }
        self.cancel_each(&self.waiting.sessions.close(self.slab(), session));
    }
}
