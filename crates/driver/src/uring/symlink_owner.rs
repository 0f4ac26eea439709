//! Opening where a link is followed only if it is its target's owner's.
//!
//! No single call does it, so none goes to the ring: a helper thread walks the path, one component at a
//! time. Only paths with a link in them, and those that are not in memory, come here.

use std::collections::HashMap;
use std::ffi::CString;
use std::sync::Arc;

use super::inflight::cancelled;
use super::wake::Bell;
use super::{Place, Uring};
use crate::blocking_pool::{self, Inbox, Work};
use crate::unpark::Unparker;
use crate::{Done, File, OpenHow, Token, Unpark};

/// What helper threads do for a driver.
pub(super) struct Linked {
    jobs: HashMap<u64, Token>,
    next: u64,
    inbox: Arc<Inbox>,
}

impl Linked {
    pub(super) fn new(unparker: &Arc<Unparker<Bell>>) -> Self {
        let inbox = Inbox::new(Arc::clone(unparker) as Arc<dyn Unpark>);
        Self { jobs: HashMap::new(), next: 0, inbox }
    }
}

impl Uring {
    pub(super) fn open_linked(
        &mut self,
        token: Token,
        directory: File,
        path: CString,
        how: OpenHow,
    ) {
        let Linked { jobs, next, inbox } = &mut self.linked;
        let job = *next;
        *next += 1;
        jobs.insert(job, token);
        self.tokens.insert(token, Place::Linked(job));
        blocking_pool::start(Work::Open { directory, path, how }, job, Arc::clone(inbox));
    }

    /// The job owns what it works on, and its answer finds nobody.
    pub(super) fn cancel_linked(&mut self, token: Token, job: u64) {
        blocking_pool::withdraw(job, &self.linked.inbox);
        self.linked.jobs.remove(&job);
        self.finish(token, Err(cancelled()));
    }

    /// Results of the helper threads.
    pub(super) fn take_linked(&mut self) {
        if self.linked.jobs.is_empty() {
            return;
        }
        for (job, result) in self.linked.inbox.take() {
            // Without a token it was cancelled.
            if let Some(token) = self.linked.jobs.remove(&job) {
                self.finish(token, result.map(Done::from));
            }
        }
    }
}
