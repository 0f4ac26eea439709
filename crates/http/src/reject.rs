//! Rejection of invalid messages.

use std::error::Error;
use std::fmt;

use crate::status::Status;

/// An invalid message. Respond with `status` and close the connection, because the start of the next request
/// is unknown (RFC 9112, 9.6 and 11.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reject {
    /// Status of the response.
    pub status: Status,
    /// The violated rule in a few words, for a log or a page. Never contains client data.
    pub reason: &'static str,
}

impl Reject {
    pub(crate) const fn new(status: Status, reason: &'static str) -> Reject {
        Reject { status, reason }
    }

    /// 400, the status for most violations.
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
