//! The pending requests of a driver, and the completions that have not been reaped.

use std::io;

use crate::token_map::TokenMap;
use crate::{Completion, Done, Token};

/// The error of a cancelled request.
pub(crate) fn cancelled() -> io::Error {
    io::Error::from_raw_os_error(libc::ECANCELED)
}

/// The pending requests and the completions of one driver.
pub(crate) struct Completions<P> {
    /// The progress of each pending request.
    pub(crate) pending: TokenMap<P>,
    pub(crate) done: Vec<Completion>,
}

impl<P: Copy> Completions<P> {
    pub(crate) fn new() -> Self {
        Self { pending: TokenMap::new(), done: Vec::new() }
    }

    /// Completes a pending request.
    pub(crate) fn finish(&mut self, token: Token, result: io::Result<Done>) {
        self.pending.remove(token);
        self.done.push(Completion { token, result });
    }

    /// Completes a pending request as cancelled.
    pub(crate) fn cancel(&mut self, token: Token) {
        self.finish(token, Err(cancelled()));
    }

    /// Completes a request that was not started.
    pub(crate) fn complete(&mut self, token: Token, result: io::Result<Done>) {
        self.done.push(Completion { token, result });
    }

    /// Completes a request that cannot be started with a system error code.
    pub(crate) fn reject(&mut self, token: Token, code: i32) {
        self.done.push(Completion::err(token, code));
    }

    /// Moves all completions to `into`. Returns their number.
    pub(crate) fn take(&mut self, into: &mut Vec<Completion>) -> usize {
        let count = self.done.len();
        into.append(&mut self.done);
        count
    }
}
