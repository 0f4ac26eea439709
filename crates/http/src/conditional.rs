//! Conditional requests (RFC 9110, 13).

use crate::etag::{Tag, tags};
use crate::{Request, parse_date};

/// What identifies the state of a representation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validators<'a> {
    /// The entity tag with its quotes, as in `"abc"` or `W/"abc"`; empty if there is none.
    pub etag: &'a str,
    /// The time of the last change, in seconds since 1970.
    pub modified: u64,
}

/// How to answer a conditional request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// As if it had no conditions.
    Proceed,
    /// With 304: the client has it.
    NotModified,
    /// With 412: what the client has is not what is here.
    PreconditionFailed,
}

/// Weighs a request's conditions against a representation that exists, in the order of RFC 9110, 13.2.2.
///
/// To be called only where the answer without conditions would be 200 (13.2.1). `If-Range` is not
/// weighed here but in [`range::resolve`](crate::range::resolve). What is no valid date is ignored, and
/// what is no valid tag matches nothing.
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

/// Whether the list names our tag, or is `*`, which any existing representation matches.
fn matches<'a>(
    request: &Request<'a>,
    name: &str,
    first: &'a [u8],
    own: Option<Tag<'_>>,
    same: fn(Tag<'a>, Tag<'_>) -> bool,
) -> bool {
    let holds = |line: &'a [u8]| {
        line == b"*" || own.is_some_and(|own| tags(line).any(|tag| same(tag, own)))
    };
    if request.repeated { request.values(name).any(holds) } else { holds(first) }
}
