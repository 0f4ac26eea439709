//! From a request to its answer: what is asked for, whether it may be, and where it lies.

use std::io;
use std::sync::Arc;

use phalanx_http::{Method, Reply, Request, Status, error_page, options, path};

use crate::connection::answer;
use crate::connection::clock::with_date;
use crate::connection::outgoing::Outgoing;
use crate::files::lookup::{Found, Looked, look_up};
use crate::site::Site;
use crate::stages::Stages;

/// Answers one request into `out`.
pub(super) async fn respond(
    out: &mut Outgoing,
    stages: Stages,
    site: &Arc<Site>,
    path: &mut Vec<u8>,
    request: &Request<'_>,
    reply: Reply,
) -> io::Result<()> {
    let error = |out: &mut Outgoing, status| {
        with_date(|date| error_page(&mut out.bytes, status, date, reply));
    };
    let Some(host) = site.host(request.host) else {
        error(out, site.unknown_host);
        return Ok(());
    };
    match request.method {
        Method::Get | Method::Head => (),
        Method::Options => {
            with_date(|date| options(&mut out.bytes, date, reply));
            return Ok(());
        }
        Method::Other(method) => {
            error(out, answer::refused_method(method));
            return Ok(());
        }
    }
    let resolved = match path::resolve(request.path.as_bytes(), path) {
        Ok(resolved) => resolved,
        Err(refused) => {
            error(out, refused.status());
            return Ok(());
        }
    };
    if resolved.directory {
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(b"index.html");
    }
    let looked: Looked;
    (*path, looked) = look_up(stages, site, host, std::mem::take(path)).await;
    match looked {
        Ok(Found::File(entry)) => {
            let part = with_date(|date| answer::file(&mut out.bytes, request, &entry, date, reply));
            out.content(site, &entry, part).await?;
        }
        // An index that is itself a directory is none.
        Ok(Found::Directory) if resolved.directory => error(out, Status::NotFound),
        Ok(Found::Directory) => {
            with_date(|date| answer::directory(&mut out.bytes, request, path, date, reply));
        }
        Err(failure) => error(out, answer::status(failure)),
    }
    out.send_if_many().await
}
