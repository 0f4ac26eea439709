//! Content negotiation: selects the encoding and the ranges of a file to send.

use std::io;
use std::sync::Arc;

use phalanx_http::{Accepted, Coding, Multipart, Outcome, Parts, Ranged, Status, evaluate, range};

use crate::files::cached::FileRef;
use crate::files::encodings::make::{obtain, start_creating};
use crate::files::encodings::variants::{Choice, Variants};
use crate::files::entry::Entry;
use crate::files::failure::Failure;
use crate::files::list;
use crate::respond::ask::Ask;
use crate::respond::content::Part;
use crate::respond::fail::fail;
use crate::respond::writer::ResponseWriter;

/// Sends the file at `path`.
pub(super) async fn negotiate(
    out: &mut ResponseWriter,
    ask: Ask<'_>,
    path: &[u8],
    entry: &FileRef,
) -> io::Result<()> {
    let Ask { site, request, .. } = ask;
    let other: Arc<Entry>;
    let chosen: &Entry = match &entry.variants {
        None if Accepted::refuses_identity(request) => {
            return fail(out, ask, Status::NotAcceptable, None).await;
        }
        None => entry,
        Some(variants) => match choose(variants, ask, path, entry) {
            Chosen::Entry(chosen) => chosen,
            Chosen::Wait(coding) => {
                let obtained = obtain(ask.stages.files, site, ask.host, path, entry, coding);
                match Box::pin(out.unless_disconnected(obtained)).await? {
                    Ok(obtained) => {
                        other = obtained;
                        &other
                    }
                    // The encoding turned out to be unavailable.
                    Err(_) if Accepted::by(request).takes(Coding::Identity) => entry,
                    Err(failure) => {
                        let status = match failure {
                            Failure::Busy => Status::ServiceUnavailable,
                            _ => Status::NotAcceptable,
                        };
                        return fail(out, ask, status, None).await;
                    }
                }
            }
            Chosen::Refused => return fail(out, ask, Status::NotAcceptable, None).await,
        },
    };
    // Matched directly, because a variable would enlarge every connection's future.
    match write_head(out, with_file_caching(ask, path), chosen) {
        Ok(Body::Part(part)) => out.content(site, chosen, part).await,
        Ok(Body::Parts(parts)) => {
            Box::pin(send_ranges(out, with_file_caching(ask, path), chosen, &parts)).await
        }
        Err(status) => fail(out, ask, status, Some(chosen.length)).await,
    }
}

/// The request for the head of the file at `path`. If the file is protected, its own fields already forbid shared
/// caches to store it.
fn with_file_caching<'a>(ask: Ask<'a>, path: &[u8]) -> Ask<'a> {
    if !ask.caching.is_private() {
        return ask;
    }
    let (path, directory) = list::split(path).map_or((path, false), |(path, _)| (path, true));
    match ask.host().rules.protects(path, directory) {
        true => Ask { caching: ask.caching.shared(), ..ask },
        false => ask,
    }
}

/// Content that follows the head of a file's response.
enum Body {
    /// One range, possibly empty.
    Part(Part),
    /// Several ranges; the head is still to be written.
    Parts(Parts),
}

/// Writes the head for a file, and returns the content to send.
///
/// # Errors
/// The status of the error response; in this case nothing is written.
fn write_head(out: &mut ResponseWriter, ask: Ask<'_>, entry: &Entry) -> Result<Body, Status> {
    let (entity, validators) = (&entry.entity, entry.validators());
    match evaluate(ask.request, &validators) {
        Outcome::Proceed => (),
        Outcome::NotModified => {
            ask.file_head(out, Status::NotModified).fields(entity.unchanged()).finish();
            return Ok(Body::Part(Part::NONE));
        }
        Outcome::PreconditionFailed => return Err(Status::PreconditionFailed),
    }
    let part = match range::resolve(ask.request, &validators, entry.length) {
        Ranged::Full => {
            ask.file_head(out, Status::Ok).entity(entity).finish();
            Part::all(entry)
        }
        Ranged::Partial { start, end } => {
            let head = ask.file_head(out, Status::PartialContent).fields(entity.partial());
            head.part(start, end, entry.length).finish();
            Part { start, end }
        }
        Ranged::Parts(parts) => return Ok(Body::Parts(parts)),
        Ranged::Unsatisfiable => return Err(Status::RangeNotSatisfiable),
    };
    Ok(Body::Part(if ask.reply.head_only { Part::NONE } else { part }))
}

/// Selected representation.
enum Chosen<'a> {
    Entry(&'a Entry),
    Wait(Coding),
    Refused,
}

/// Selects a representation, and starts compressing one for later requests if there is none yet.
fn choose<'a>(variants: &'a Variants, ask: Ask<'_>, path: &[u8], entry: &'a FileRef) -> Chosen<'a> {
    let (chosen, coding): (&Entry, _) = match variants.choose(&Accepted::by(ask.request)) {
        Choice::Own { begin } => (entry, begin),
        Choice::Ready { entry, begin } => (entry, begin),
        Choice::Wait(coding) => return Chosen::Wait(coding),
        Choice::Refused => return Chosen::Refused,
    };
    if let Some(coding) = coding {
        start_creating(ask.stages.files, ask.site, ask.host, path, entry, coding);
    }
    Chosen::Entry(chosen)
}

/// Sends several ranges as one multipart response.
async fn send_ranges(
    out: &mut ResponseWriter,
    ask: Ask<'_>,
    entry: &Entry,
    parts: &Parts,
) -> io::Result<()> {
    let boundary = ask.site.boundary(entry.validators().etag);
    let multipart = Multipart::new(parts, &entry.entity, entry.length, boundary);
    let head = ask.file_head(out, Status::PartialContent).fields(entry.entity.multipart());
    multipart.head(head).finish();
    for (n, (start, end)) in parts.iter().enumerate() {
        out.buffer.append(|bytes| multipart.before(n, bytes));
        out.content(ask.site, entry, Part { start, end }).await?;
    }
    out.buffer.append(|bytes| multipart.end(bytes));
    Ok(())
}
