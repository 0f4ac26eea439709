//! Conditional requests (RFC 9110, 13).

use crate::request::head::Request;
use crate::syntax::date::parse_date;
use crate::syntax::etag::{Tag, tags};

/// Validators of a representation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validators<'a> {
    /// Entity tag with its quotes, as in `"abc"` or `W/"abc"`; empty if there is none.
    pub etag: &'a str,
    /// Time of the last modification, in seconds since 1970.
    pub modified: u64,
}

/// Result of evaluating the conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Process the request as if it had no conditions.
    Proceed,
    /// Respond with 304: the client's copy is current.
    NotModified,
    /// Respond with 412: a precondition failed.
    PreconditionFailed,
}

/// Evaluates a request's conditions for an existing representation, in the order of RFC 9110, 13.2.2.
///
/// Call it only if the response without conditions would be 200 (13.2.1). `If-Range` is not evaluated here
/// but in [`range::resolve`](crate::range::resolve). Invalid dates are ignored, and invalid tags match
/// nothing.
pub fn evaluate(request: &Request<'_>, validators: &Validators<'_>) -> Outcome {
    let Request { if_match, if_none_match, if_modified_since, if_unmodified_since, .. } = request;
    if [if_match, if_none_match, if_modified_since, if_unmodified_since].iter().all(|c| c.is_none())
    {
        return Outcome::Proceed;
    }
    let own = Tag::whole(validators.etag.as_bytes());
    // Steps 1 and 2.
    let current = if let Some(line) = request.if_match {
        matches(request, "if-match", line, own, Tag::matches_strongly)
    } else {
        let since = request.if_unmodified_since.and_then(parse_date);
        since.is_none_or(|since| validators.modified <= since)
    };
    if !current {
        return Outcome::PreconditionFailed;
    }
    // Steps 3 and 4.
    if let Some(line) = request.if_none_match {
        return match matches(request, "if-none-match", line, own, Tag::matches_weakly) {
            false => Outcome::Proceed,
            true if request.method.reads() => Outcome::NotModified,
            true => Outcome::PreconditionFailed,
        };
    }
    let since = request.if_modified_since.filter(|_| request.method.reads()).and_then(parse_date);
    if since.is_some_and(|since| validators.modified <= since) {
        return Outcome::NotModified;
    }
    Outcome::Proceed
}

/// Whether the list contains our tag, or is `*`, which matches any representation.
fn matches<'a>(
    request: &Request<'a>,
    name: &str,
    first: &'a [u8],
    current: Option<Tag<'_>>,
    same: fn(Tag<'a>, Tag<'_>) -> bool,
) -> bool {
    let line_matches = |line: &'a [u8]| {
        line == b"*" || current.is_some_and(|current| tags(line).any(|tag| same(tag, current)))
    };
    if request.repeated { request.values(name).any(line_matches) } else { line_matches(first) }
}
