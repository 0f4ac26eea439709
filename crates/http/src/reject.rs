//! Why a message cannot be served.

use std::error::Error;
use std::fmt;

use crate::Status;

/// A message that breaks the rules. Answer with `status` and close the connection: where the next
/// request would begin is not known (RFC 9112, 9.6 and 11.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reject {
    /// The status to answer with.
    pub status: Status,
    /// The rule that was broken, in a few words, for a log or a page. Never holds a client's bytes.
    pub reason: &'static str,
}

impl Reject {
    pub(crate) const fn new(status: Status, reason: &'static str) -> Reject {
        Reject { status, reason }
    }

    /// 400: what most broken rules come to.
    pub(crate) const fn bad(reason: &'static str) -> Reject {
        Reject::new(Status::BadRequest, reason)
    }
}

impl fmt::Display for Reject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.status.code(), self.status.reason(), self.reason)
    }
}

impl Error for Reject {}
