//! Opening paths in which a link is followed only if it has the same owner as its target.
//!
//! No single call does this, so a helper thread resolves the path, one component at a time. Only paths that
//! contain a link, or are not in the kernel's cache, take this path.

use std::collections::HashMap;
use std::ffi::CString;
use std::sync::Arc;

use crate::blocking_pool::{self, Inbox, Work};
use crate::unpark::Unparker;
use crate::uring::operation::inflight::cancelled;
use crate::uring::ring::wake::WakeEvent;
use crate::uring::{Pending, Uring};
use crate::{Done, File, OpenHow, Token, Unpark};

/// The paths that helper threads resolve for a driver.
pub(super) struct OwnerChecks {
    jobs: HashMap<u64, Token>,
    next: u64,
    inbox: Arc<Inbox>,
}

impl OwnerChecks {
    pub(super) fn new(unparker: &Arc<Unparker<WakeEvent>>) -> Self {
        let inbox = Inbox::new(Arc::clone(unparker) as Arc<dyn Unpark>);
        Self { jobs: HashMap::new(), next: 0, inbox }
    }
}

impl Uring {
    pub(super) fn open_checking_owners(
        &mut self,
        token: Token,
        directory: File,
        path: CString,
        how: OpenHow,
    ) {
        let OwnerChecks { jobs, next, inbox } = &mut self.owner_checks;
        let job = *next;
        *next += 1;
        jobs.insert(job, token);
        self.tokens.insert(token, Pending::OwnerCheck(job));
        blocking_pool::start(Work::Open { directory, path, how }, job, Arc::clone(inbox));
    }

    /// The job owns its data, and its result is discarded.
    pub(super) fn cancel_owner_check(&mut self, token: Token, job: u64) {
        blocking_pool::cancel(job, &self.owner_checks.inbox);
        self.owner_checks.jobs.remove(&job);
        self.finish(token, Err(cancelled()));
    }

    /// Takes the results of the helper threads.
    pub(super) fn take_owner_checks(&mut self) {
        if self.owner_checks.jobs.is_empty() {
            return;
        }
        for (job, result) in self.owner_checks.inbox.take() {
            // A job without a token was cancelled.
            if let Some(token) = self.owner_checks.jobs.remove(&job) {
                self.finish(token, result.map(Done::from));
            }
        }
    }
}
