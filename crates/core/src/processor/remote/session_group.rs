//! Sessions that span processors: joining a group, and ending it on all processors.
//!
//! [`crate::session::group`] describes the protocol.

use std::sync::Arc;

use crate::operation::state::NO_SESSION;
use crate::processor::processor::Processor;
use crate::processor::remote::commands::Responder;
use crate::session::group::Group;
use crate::session::table::Resource;

impl Processor {
    /// The group for a remote invocation by the current session, if there is a session.
    #[inline]
    pub(crate) fn current_group(&self) -> Option<Arc<Group>> {
        match self.waiting.sessions.current() {
            NO_SESSION => None,
            session => Some(self.waiting.sessions.group(session, self.index(), self.processors())),
        }
    }

    /// Runs `f` so that its invocations belong to `group`. Returns `None` without running `f` if the group has ended.
    #[inline]
    pub(crate) fn with_group<R>(
        &self,
        group: Option<Arc<Group>>,
        f: impl FnOnce() -> R,
    ) -> Option<R> {
        let Some(group) = group else { return Some(f()) };
        let session = self.waiting.sessions.record_of_group(group, self.index())?;
        // Counts as a handle, so that dropping other handles in `f` does not free the record.
        self.waiting.sessions.retain(session, Resource::Handle);
        let result = self.waiting.sessions.with_current(session, f);
        self.release_session(session, Resource::Handle);
        Some(result)
    }

    /// Ends the group on all other processors that have joined it. The session's record counts them.
    #[cold]
    pub(crate) fn end_group_elsewhere(&self, session: u32, group: &Arc<Group>) {
        for target in group.end().into_iter().filter(|target| *target != self.index()) {
            self.waiting.sessions.retain(session, Resource::UnconfirmedProcessor);
            let group = group.clone();
            self.request(
                target,
                move |there, responder| there.end_group_here(&group, responder),
                move |here| here.release_session(session, Resource::UnconfirmedProcessor),
            );
        }
    }

    /// Ends this processor's part of a group that another processor has ended, and replies when the part has settled.
    /// That is immediately if this processor has no record of the group.
    fn end_group_here(&self, group: &Arc<Group>, responder: Responder) {
        let Some(session) = self.waiting.sessions.find_group(group) else {
            return drop(responder);
        };
        self.waiting.sessions.reply_when_settled(session, responder.into_address());
        // Keeps the record alive while its operations are cancelled.
        self.waiting.sessions.retain(session, Resource::Handle);
        self.cancel_each(&self.waiting.sessions.close(self.slab(), session));
        self.release_session(session, Resource::Handle);
    }
}
