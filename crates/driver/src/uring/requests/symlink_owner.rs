//! Opening paths in which a link is followed only if it has the same owner as its target.
//!
//! No single call does this, so a helper thread resolves the path, one component at a time. Only paths that
//! contain a link, or are not in the kernel's cache, take this path.

use std::ffi::CString;
use std::sync::Arc;

use crate::blocking_pool::{self, Work};
use crate::uring::operation::inflight::cancelled;
use crate::uring::operation::owner_checks::OwnerChecks;
use crate::uring::{Pending, Uring};
use crate::{Done, File, OpenHow, Token};

impl Uring {
    pub(crate) fn open_checking_owners(
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
    pub(crate) fn cancel_owner_check(&mut self, token: Token, job: u64) {
        blocking_pool::cancel(job, &self.owner_checks.inbox);
        self.owner_checks.jobs.remove(&job);
        self.finish(token, Err(cancelled()));
    }

    /// Takes the results of the helper threads.
    pub(crate) fn take_owner_checks(&mut self) {
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
