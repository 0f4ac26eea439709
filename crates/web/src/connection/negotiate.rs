//! Content negotiation: selects the encoding and the ranges of a file to send.

use std::io;
use std::sync::Arc;

use phalanx_http::{Accepted, Coding, Head, Multipart, Parts, Status};

use crate::connection::answer::{self, Follows, Part};
use crate::connection::clock::with_date;
use crate::connection::fail::fail;
use crate::connection::outgoing::Outgoing;
use crate::connection::respond::Ask;
use crate::files::entry::Entry;
use crate::files::failure::Failure;
use crate::files::make::{begin, obtain};
use crate::files::variants::{Choice, Variants};

/// Sends the file at `path`.
pub(super) async fn negotiate(
    out: &mut Outgoing,
    ask: Ask<'_>,
    path: &[u8],
    entry: &Arc<Entry>,
) -> io::Result<()> {
    let Ask { site, request, reply, .. } = ask;
    let other: Arc<Entry>;
    let chosen: &Entry = match &entry.variants {
        None if Accepted::refuses_identity(request) => {
            return fail(out, ask, Status::NotAcceptable, None).await;
        }
        None => entry,
        Some(variants) => match choose(variants, ask, path, entry) {
            Chosen::Entry(chosen) => chosen,
            Chosen::Wait(coding) => {
                match Box::pin(obtain(ask.stages, site, ask.host, path, entry, coding)).await {
                    Ok(obtained) => {
                        other = obtained;
                        &other
                    }
                    // The encoding is not available after all.
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
    let start = out.bytes.len();
    let follows = with_date(|date| answer::file(&mut out.bytes, request, chosen, date, reply));
    let is_tls = out.is_tls();
    site[ask.host].finish(&mut out.bytes, start, true, request, is_tls);
    match follows {
        Ok(Follows::Part(part)) => out.content(site, chosen, part).await,
        Ok(Follows::Parts(parts)) => Box::pin(several(out, ask, chosen, &parts)).await,
        Err(status) => fail(out, ask, status, Some(chosen.length)).await,
    }
}

/// Selected representation.
enum Chosen<'a> {
    Entry(&'a Entry),
    Wait(Coding),
    Refused,
}

/// Selects a representation, and starts compressing one for later requests if there is none yet.
fn choose<'a>(
    variants: &'a Variants,
    ask: Ask<'_>,
    path: &[u8],
    entry: &'a Arc<Entry>,
) -> Chosen<'a> {
    let (chosen, coding): (&Entry, _) = match variants.choose(&Accepted::by(ask.request)) {
        Choice::Own { begin } => (entry, begin),
        Choice::Ready { entry, begin } => (entry, begin),
        Choice::Wait(coding) => return Chosen::Wait(coding),
        Choice::Refused => return Chosen::Refused,
    };
    if let Some(coding) = coding {
        begin(ask.stages, ask.site, ask.host, path, entry, coding);
    }
    Chosen::Entry(chosen)
}

/// Sends several ranges as one multipart response.
async fn several(out: &mut Outgoing, ask: Ask<'_>, entry: &Entry, parts: &Parts) -> io::Result<()> {
    let boundary = ask.site.boundary(entry.validators().etag);
    let multipart = Multipart::new(parts, &entry.entity, entry.length, boundary);
    let start = out.bytes.len();
    with_date(|date| {
        let head = Head::new(&mut out.bytes, Status::PartialContent, date, ask.reply);
        multipart.head(head.block(entry.entity.multipart())).finish();
    });
    let is_tls = out.is_tls();
    ask.site[ask.host].finish(&mut out.bytes, start, true, ask.request, is_tls);
    for (n, (start, end)) in parts.iter().enumerate() {
        multipart.before(n, &mut out.bytes);
        out.content(ask.site, entry, Part { start, end }).await?;
    }
    multipart.end(&mut out.bytes);
    Ok(())
}
