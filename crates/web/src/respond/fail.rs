//! Error responses: the host's own error page, or the built-in one.

use std::io;

use phalanx_http::{FieldBlock, Status, error_fields};

use crate::files::failure::Failure;
use crate::files::found::Found;
use crate::files::lookup::look_up;
use crate::respond::ask::Ask;
use crate::respond::content::Part;
use crate::respond::writer::ResponseWriter;

/// Responds with `status`. `whole` is the length of the requested representation, if it is known.
pub(super) async fn fail(
    out: &mut ResponseWriter,
    ask: Ask<'_>,
    status: Status,
    whole: Option<u64>,
) -> io::Result<()> {
    fail_with(out, ask, status, &error_fields(status, whole)).await
}

/// As [`fail`], with these additional fields.
pub(super) async fn fail_with(
    out: &mut ResponseWriter,
    ask: Ask<'_>,
    status: Status,
    fields: &FieldBlock,
) -> io::Result<()> {
    let pages = &ask.host().config.error_pages;
    let page = pages.iter().find(|(code, _)| *code == status.code());
    if let Some((_, page)) = page
        && Box::pin(own_page(out, ask, status, fields, page)).await?
    {
        return Ok(());
    }
    ask.head(out, status).fields(fields.all()).page();
    Ok(())
}

/// Responds with the host's error page. Returns false if the page cannot be loaded, which is not an error.
async fn own_page(
    out: &mut ResponseWriter,
    ask: Ask<'_>,
    status: Status,
    fields: &FieldBlock,
    page: &str,
) -> io::Result<bool> {
    let path = page.trim_start_matches('/').as_bytes().to_vec();
    let (_, result) = look_up(ask.stages.files, ask.site, ask.host, path).await;
    let Ok(Found::File(entry)) = result else { return Ok(false) };
    // The error may be temporary.
    let ask = Ask { caching: ask.caching.shared(), ..ask };
    let head = ask.head(out, status).fields(fields.all()).field("Cache-Control", b"no-store");
    head.fields(entry.entity.content_type()).length(entry.length).finish();
    if !ask.reply.head_only {
        out.content(ask.site, &entry, Part::all(&entry)).await?;
    }
    Ok(true)
}

/// Maps a lookup failure to a status.
pub(super) fn status(failure: Failure) -> Status {
    match failure {
        Failure::Missing => Status::NotFound,
        Failure::Forbidden => Status::Forbidden,
        Failure::Busy => Status::ServiceUnavailable,
        Failure::Broken => Status::InternalServerError,
    }
}

/// Status for an unsupported method: 405 for a known method, 501 for an unknown one (RFC 9110 §15.5.6,
/// §15.6.2).
pub(super) fn refused_method(method: &str) -> Status {
    match method {
        "POST" | "PUT" | "DELETE" | "PATCH" | "TRACE" | "CONNECT" => Status::MethodNotAllowed,
        _ => Status::NotImplemented,
    }
}
