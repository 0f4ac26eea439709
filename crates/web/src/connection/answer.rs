//! What to answer: from a request and a file to the bytes of a head, and which bytes follow it.

use phalanx_http::{
    DateLine, Head, Outcome, Parts, Ranged, Reply, Request, Status, evaluate, path, range, redirect,
};

use crate::files::entry::Entry;
use crate::files::failure::Failure;

/// The part of a file that follows the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// The first byte.
    pub(crate) start: u64,
    /// Behind the last byte.
    pub(crate) end: u64,
}

impl Part {
    const NONE: Self = Self { start: 0, end: 0 };

    /// All of a file.
    pub(crate) fn all(entry: &Entry) -> Self {
        Self { start: 0, end: entry.length }
    }

    pub(crate) fn length(self) -> u64 {
        self.end - self.start
    }
}

/// What follows the head of a file's answer.
pub(crate) enum Follows {
    /// Some of its bytes, or none.
    Part(Part),
    /// Several parts of it; their head is still to be written, too.
    Parts(Parts),
}

/// Writes the head for a file that exists, and says what of it follows.
///
/// # Errors
/// The status of the error to answer with; nothing is written then.
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

/// Sends the client of a directory without its slash to the one with it.
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

/// The status for a path that leads to nothing.
pub(crate) fn status(failure: Failure) -> Status {
    match failure {
        Failure::Missing => Status::NotFound,
        Failure::Forbidden => Status::Forbidden,
        Failure::Busy => Status::ServiceUnavailable,
        Failure::Broken => Status::InternalServerError,
    }
}

/// The status for a method that is not served, or none for one that is: a known one is not allowed
/// here, an unknown one is not implemented (RFC 9110 §15.5.6, §15.6.2).
pub(crate) fn refused_method(method: &str) -> Status {
    match method {
        "POST" | "PUT" | "DELETE" | "PATCH" | "TRACE" | "CONNECT" => Status::MethodNotAllowed,
        _ => Status::NotImplemented,
    }
}
