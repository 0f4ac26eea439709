//! Response heads for files, and the content that follows them.

use phalanx_http::{
    DateLine, Head, Outcome, Parts, Ranged, Reply, Request, Status, evaluate, path, range, redirect,
};

use crate::files::entry::Entry;
use crate::files::failure::Failure;

/// Range of a file's bytes that follows the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// Offset of the first byte.
    pub(crate) start: u64,
    /// Offset one past the last byte.
    pub(crate) end: u64,
}

impl Part {
    const NONE: Self = Self { start: 0, end: 0 };

    /// The whole file.
    pub(crate) fn all(entry: &Entry) -> Self {
        Self { start: 0, end: entry.length }
    }

    pub(crate) fn length(self) -> u64 {
        self.end - self.start
    }
}

/// Content that follows the head of a file's response.
pub(crate) enum Follows {
    /// One range, possibly empty.
    Part(Part),
    /// Several ranges; the caller still has to write the head.
    Parts(Parts),
}

/// Writes the head for a file that exists, and returns the content to send.
///
/// # Errors
/// The status of the error response; in this case nothing is written.
pub(crate) fn file(
    out: &mut Vec<u8>,
    request: &Request<'_>,
    entry: &Entry,
    date: &DateLine,
    reply: Reply,
) -> Result<Follows, Status> {
    let validators = entry.validators();
    match evaluate(request, &validators) {
        Outcome::Proceed => (),
        Outcome::NotModified => {
            Head::new(out, Status::NotModified, date, reply)
                .block(entry.entity.unchanged())
                .finish();
            return Ok(Follows::Part(Part::NONE));
        }
        Outcome::PreconditionFailed => return Err(Status::PreconditionFailed),
    }
    let part = match range::resolve(request, &validators, entry.length) {
        Ranged::Full => {
            Head::new(out, Status::Ok, date, reply).block(entry.entity.full()).finish();
            Part::all(entry)
        }
        Ranged::Partial { start, end } => {
            Head::new(out, Status::PartialContent, date, reply)
                .block(entry.entity.partial())
                .part(start, end, entry.length)
                .finish();
            Part { start, end }
        }
        Ranged::Parts(parts) => return Ok(Follows::Parts(parts)),
        Ranged::Unsatisfiable => return Err(Status::RangeNotSatisfiable),
    };
    Ok(Follows::Part(if reply.head_only { Part::NONE } else { part }))
}

/// Redirects a directory's URL without a trailing slash to the URL with one.
pub(crate) fn directory(
    out: &mut Vec<u8>,
    request: &Request<'_>,
    resolved: &[u8],
    date: &DateLine,
    reply: Reply,
) {
    let mut location = Vec::new();
    path::redirect_location(resolved, request.query, &mut location);
    redirect(out, Status::MovedPermanently, &location, date, reply);
}

/// Maps a lookup failure to a status.
pub(crate) fn status(failure: Failure) -> Status {
    match failure {
        Failure::Missing => Status::NotFound,
        Failure::Forbidden => Status::Forbidden,
        Failure::Busy => Status::ServiceUnavailable,
        Failure::Broken => Status::InternalServerError,
    }
}

/// Status for an unsupported method: 405 for a known method, 501 for an unknown one (RFC 9110 §15.5.6,
/// §15.6.2).
pub(crate) fn refused_method(method: &str) -> Status {
    match method {
        "POST" | "PUT" | "DELETE" | "PATCH" | "TRACE" | "CONNECT" => Status::MethodNotAllowed,
        _ => Status::NotImplemented,
    }
}
