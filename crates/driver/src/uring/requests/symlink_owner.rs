//! Opening paths in which a link is followed only if it has the same owner as its target.
//!
//! No single call does this, so a helper thread resolves the path, one component at a time. Only paths that contain a
//! link, or are not in the kernel's cache, are opened in this way.

use std::ffi::CString;

use crate::blocking::pool::Work;
use crate::uring::{Pending, Uring};
use crate::{File, OpenHow, Token};

impl Uring {
    pub(crate) fn open_checking_owners(
        &mut self,
        token: Token,
        directory: File,
        path: CString,
        how: OpenHow,
    ) {
        let job = self.owner_checks.start(token, Work::Open { directory, path, how });
        self.completions.pending.insert(token, Pending::OwnerCheck(job));
    }

    pub(crate) fn cancel_owner_check(&mut self, token: Token, job: u64) {
        self.owner_checks.cancel(job, false);
        self.completions.cancel(token);
    }

    /// Takes the results of the helper threads.
    pub(crate) fn take_owner_checks(&mut self) {
        for (token, result) in self.owner_checks.take() {
            self.completions.finish(token, result);
        }
    }
}
