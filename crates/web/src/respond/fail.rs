//! Error responses: the host's own error page, or the built-in one.

use std::io;
use std::sync::Arc;

use phalanx_http::{FieldBlock, Head, Reply, Status, error_fields};

use crate::files::cached::FileRef;
use crate::files::entry::Entry;
use crate::files::failure::Failure;
use crate::files::found::Found;
use crate::files::lookup::look_up;
use crate::respond::ask::Ask;
use crate::respond::content::Part;
use crate::respond::refusal::{head, host_error_page, refuse};
use crate::respond::writer::ResponseWriter;
use crate::site::{HostIndex, Site};
use crate::stages::Stages;

/// Responds with `status`. `whole` is the length of the requested representation, if it is known.
pub(super) async fn fail(
    out: &mut ResponseWriter,
    ask: Ask<'_>,
    status: Status,
    whole: Option<u64>,
) -> io::Result<()> {
    fail_with(out, ask, status, &error_fields(status, whole)).await
}

/// Like [`fail`], with these additional fields.
pub(super) async fn fail_with(
    out: &mut ResponseWriter,
    ask: Ask<'_>,
    status: Status,
    fields: &FieldBlock,
) -> io::Result<()> {
    if error_page(ask.site, ask.host, status).is_some()
        && Box::pin(own_page(out, ask, status, fields)).await?
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
) -> io::Result<bool> {
    let page = load_error_page(ask.stages, ask.site, ask.host, status).await;
    let Some(entry) = page else { return Ok(false) };
    let ask = Ask { caching: ask.caching.shared(), ..ask };
    finish_page_head(ask.head(out, status), fields, &entry);
    if !ask.reply.head_only {
        out.content(ask.site, &entry, Part::all(&entry)).await?;
    }
    Ok(true)
}

/// Responds with an error to a request that could not be forwarded. Of the host's rules, only the error pages apply.
///
/// # Errors
/// If the response cannot be sent.
pub(crate) async fn fail_for_server(
    out: &mut ResponseWriter,
    (site, host): (&Arc<Site>, Option<HostIndex>),
    (status, reply): (Status, Reply),
) -> io::Result<()> {
    let page = match host {
        Some(host) => load_error_page(out.stages, site, host, status).await,
        None => None,
    };
    let is_tls = out.is_tls();
    let transport = host.and_then(|host| site.transport_fields(host, is_tls));
    let Some(entry) = page else {
        match status {
            Status::ServiceUnavailable => refuse(&mut out.buffer, status, reply, transport),
            _ => host_error_page(&mut out.buffer, status, reply, transport),
        }
        return Ok(());
    };
    let mut fields = error_fields(status, None);
    if status == Status::ServiceUnavailable {
        fields.push("Retry-After", b"1");
    }
    finish_page_head(head(&mut out.buffer, status, reply, transport), &fields, &entry);
    if !reply.head_only {
        out.content(site, &entry, Part::all(&entry)).await?;
    }
    Ok(())
}

/// Ends the head of a response with the error page `entry`. Caches do not store it: the error may be temporary.
fn finish_page_head(head: Head<'_>, fields: &FieldBlock, entry: &Entry) {
    let head = head.fields(fields.all()).field("Cache-Control", b"no-store");
    head.fields(entry.entity.content_type()).length(entry.length).finish();
}

/// The path of the host's error page for this status.
fn error_page(site: &Site, host: HostIndex, status: Status) -> Option<&str> {
    let mut pages = site[host].config.error_pages.iter();
    pages.find(|(code, _)| *code == status.code()).map(|(_, page)| &page[..])
}

async fn load_error_page(
    stages: Stages,
    site: &Arc<Site>,
    host: HostIndex,
    status: Status,
) -> Option<FileRef> {
    let path = error_page(site, host, status)?.trim_start_matches('/').as_bytes().to_vec();
    match look_up(stages.files, site, host, path).await.1 {
        Ok(Found::File(entry)) => Some(entry),
        _ => None,
    }
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
