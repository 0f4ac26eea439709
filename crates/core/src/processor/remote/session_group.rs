//! Sessions that span processors: joining a group, and ending it on all of them.
//!
//! [`crate::session::group_flag`] describes the protocol.

use std::sync::Arc;

use crate::operation::state::NO_SESSION;
use crate::panic::catch_panic;
use crate::processor::processor::Processor;
use crate::processor::remote::commands::{Responder, reply};
use crate::session::group_flag::Group;
use crate::session::table::{Record, Settled};

impl Processor {
    /// The group that a remote invocation made now belongs to.
    #[inline]
    pub(crate) fn leaving_group(&self) -> Option<Arc<Group>> {
        match self.waiting.sessions.current() {
            NO_SESSION => None,
            session => Some(self.waiting.sessions.group(session, self.index(), self.processors())),
        }
    }

    /// Runs `f` so that its invocations belong to `group`. Returns none, without running `f`, if the group
    /// has ended.
    #[inline]
    pub(crate) fn in_group<R>(
        &self,
        group: Option<Arc<Group>>,
        f: impl FnOnce() -> R,
    ) -> Option<R> {
        let Some(group) = group else { return Some(f()) };
        let session = self.waiting.sessions.proxy(group, self.index())?;
        // Counted as a handle, so that dropping other handles in `f` does not free the record.
        self.waiting.sessions.with(session, |record| record.handles += 1);
        let result = self.waiting.sessions.within(session, f);
        self.release_session(session, |record| record.handles -= 1);
        Some(result)
    }

    /// Runs a change of a session's record that releases something, and delivers what waited for it.
    pub(crate) fn release_session(&self, session: u32, change: fn(&mut Record)) {
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

    /// Ends the group on all other processors that take part; [`Record::unconfirmed_processors`] counts them.
    #[cold]
    fn end_group_elsewhere(&self, session: u32, group: &Arc<Group>) {
        for target in group.end().into_iter().filter(|target| *target != self.index()) {
            self.waiting.sessions.with(session, |record| record.unconfirmed_processors += 1);
            let group = group.clone();
            self.request(
                target,
                move |there, responder| there.end_group_here(&group, responder),
                move |here| {
                    here.release_session(session, |record| record.unconfirmed_processors -= 1);
                },
            );
        }
    }

    /// Ends this processor's part of a group that another processor has ended, and replies when it has
    /// settled: immediately if nothing of the group is here.
    fn end_group_here(&self, group: &Arc<Group>, responder: Responder) {
        let Some(session) = self.waiting.sessions.of_group(group) else {
            return drop(responder);
        };
        self.waiting.sessions.with(session, |record| {
            record.end_waiters.push(responder.into_address());
            // Keeps the record alive while its operations are cancelled.
            record.handles += 1;
        });
        self.cancel_each(&self.waiting.sessions.close(self.slab(), session));
        self.release_session(session, |record| record.handles -= 1);
    }
}
