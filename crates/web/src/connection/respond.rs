//! Request handling: host, route, access, file lookup and response.

use std::io;
use std::sync::Arc;

use phalanx_http::{Method, Reply, Request, Status, error_page, options, path, redirect};

use crate::connection::answer;
use crate::connection::clock::with_date;
use crate::connection::fail::fail;
use crate::connection::fallback::find_fallback;
use crate::connection::negotiate::negotiate;
use crate::connection::outgoing::Outgoing;
use crate::connection::password::{check_access, route_protected};
use crate::files::failure::Failure;
use crate::files::lookup::{Found, LookupResult, look_up};
use crate::site::rules::Route;
use crate::site::{HostIndex, Site};
use crate::stages::Stages;

/// A request routed to a host, with its response options.
#[derive(Clone, Copy)]
pub(super) struct Ask<'a> {
    pub(super) stages: Stages,
    pub(super) site: &'a Arc<Site>,
    pub(super) host: HostIndex,
    pub(super) request: &'a Request<'a>,
    pub(super) reply: Reply,
}

/// Writes the response to one request into `out`.
pub(crate) async fn respond(
    out: &mut Outgoing,
    stages: Stages,
    site: &Arc<Site>,
    path: &mut Vec<u8>,
    request: &Request<'_>,
    reply: Reply,
) -> io::Result<()> {
    let Some(host) = site.host(request.host) else {
        with_date(|date| error_page(&mut out.bytes, site.unknown_host, date, reply));
        return Ok(());
    };
    let ask = Ask { stages, site, host, request, reply };
    let here = &ask.site[ask.host];
    let start = out.bytes.len();
    match request.method {
        Method::Get | Method::Head => (),
        Method::Options => {
            with_date(|date| match &here.rules.cors {
                Some(cors) if cors.preflight(&mut out.bytes, request, date, reply) => (),
                _ => options(&mut out.bytes, date, reply),
            });
            let is_tls = out.is_tls();
            here.finish(&mut out.bytes, start, false, request, is_tls);
            return Ok(());
        }
        Method::Other(method) => {
            return fail(out, ask, answer::refused_method(method), None).await;
        }
    }
    let mut resolved = match path::resolve(request.path.as_bytes(), path) {
        Ok(resolved) => resolved,
        Err(refused) => return fail(out, ask, refused.status(), None).await,
    };
    let directory = &mut resolved.directory;
    let route = if here.rules.has_auth() {
        // Boxed because it is rare: a connection always reserves the memory of its largest state.
        Box::pin(route_protected(out, ask, path, directory)).await?
    } else {
        here.rules.route(path, directory, request.query)
    };
    // Only `ask` is used from here on: a value held across an await enlarges every connection.
    match route {
        Route::Here | Route::Rewritten => (),
        Route::Answered => return Ok(()),
        Route::Redirect(status, location) => {
            with_date(|date| redirect(&mut out.bytes, status, &location, date, ask.reply));
            let is_tls = out.is_tls();
            here.finish(&mut out.bytes, start, false, ask.request, is_tls);
            return Ok(());
        }
    }
    if resolved.directory
        && let Some(index) = here.config.index.first()
    {
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(index.as_bytes());
    }
    let result: LookupResult;
    (*path, result) = look_up(ask.stages, ask.site, ask.host, std::mem::take(path)).await;
    let found = match result {
        Ok(Found::File(entry)) => Ok(entry),
        Ok(Found::Directory) if !resolved.directory => {
            with_date(|date| answer::directory(&mut out.bytes, ask.request, path, date, ask.reply));
            let is_tls = out.is_tls();
            here.finish(&mut out.bytes, start, false, ask.request, is_tls);
            return out.send_if_full().await;
        }
        Ok(Found::Directory) | Err(Failure::Missing) => {
            Box::pin(find_fallback(ask, path, resolved.directory)).await
        }
        Err(failure) => Err(answer::status(failure)),
    };
    if found.is_ok()
        && here.rules.has_auth()
        && !Box::pin(check_access(out, ask, path, false)).await?
    {
        return Ok(());
    }
    match found {
        Ok(entry) => negotiate(out, ask, path, &entry).await?,
        Err(status) => fail(out, ask, status, None).await?,
    }
    out.send_if_full().await
}

/// Redirects the client to the same URL over TLS.
#[cold]
pub(crate) fn redirect_to_https(
    out: &mut Vec<u8>,
    site: &Site,
    request: &Request<'_>,
    port: u16,
    reply: Reply,
) {
    let name = match site.redirect_name(request.host) {
        Ok(name) => name,
        Err(status) => {
            with_date(|date| error_page(out, status, date, reply));
            return;
        }
    };
    let mut location = format!("https://{name}");
    if port != 443 {
        location.push_str(&format!(":{port}"));
    }
    let mut location = location.into_bytes();
    path::encode_target(if request.path == "*" { "/" } else { request.path }, &mut location);
    if let Some(query) = request.query {
        path::encode_query(query, &mut location);
    }
    with_date(|date| redirect(out, Status::PermanentRedirect, &location, date, reply));
}
