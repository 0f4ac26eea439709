//! Request handling: host, route, access, file lookup and response.

use std::io;
use std::sync::Arc;

use phalanx_http::{ALLOW, Method, Reply, Request, Status, path};

use crate::clock;
use crate::files::failure::Failure;
use crate::files::found::{Found, LookupResult};
use crate::files::lookup::look_up;
use crate::respond::ask::Ask;
use crate::respond::fail::{self, fail, refused_method};
use crate::respond::fallback::find_fallback;
use crate::respond::negotiate::negotiate;
use crate::respond::password::{check_access, check_address, route_protected};
use crate::respond::redirect::{redirect, redirect_directory};
use crate::respond::writer::ResponseWriter;
use crate::site::rules::Route;
use crate::site::{Site, is_preflight};
use crate::stages::Stages;

/// Whether the client may access the path of a request that is to be forwarded. If not, the response is already
/// written.
///
/// # Errors
/// If the response cannot be sent.
pub(crate) async fn is_permitted(
    out: &mut ResponseWriter,
    stages: Stages,
    site: &Arc<Site>,
    path: &mut Vec<u8>,
    request: &Request<'_>,
    reply: Reply,
) -> io::Result<bool> {
    let Some(host) = site.host(request.host).filter(|host| site[*host].rules.has_protected())
    else {
        return Ok(true);
    };
    let ask = Ask::new(stages, site, host, request, reply);
    // Browsers send preflight requests without a password.
    let is_preflight = request.method == Method::Options && is_preflight(request);
    match path::resolve(request.path.as_bytes(), path) {
        Ok(resolved) if is_preflight => check_address(out, ask, path, resolved.directory).await,
        Ok(resolved) => check_access(out, ask, path, resolved.directory).await,
        // No rule applies to the path, no matter how the other server interprets it.
        Err(_) if !ask.host().rules.may_protect(request.path) => Ok(true),
        Err(refused) => fail(out, ask, refused.status(), None).await.map(|()| false),
    }
}

/// Writes the response to `OPTIONS` into `out`.
fn options(out: &mut ResponseWriter, ask: Ask<'_>) {
    let (rules, request) = (&ask.host().rules, ask.request);
    let head = match is_preflight(request) && rules.has_protected() {
        // No password was required.
        true => ask.preflight_head(out),
        false => ask.head(out, Status::NoContent),
    };
    match rules.cors.as_ref().and_then(|cors| cors.preflight(request)) {
        Some(fields) => head.fields(fields.all()).finish(),
        None => head.field("Allow", ALLOW.as_bytes()).finish(),
    }
}

/// Responds to a request with a method that files do not support. Redirects apply nevertheless: after a 307 or 308 the
/// client repeats the request at the target.
async fn respond_to_other(
    out: &mut ResponseWriter,
    ask: Ask<'_>,
    path: &mut Vec<u8>,
    method: &str,
) -> io::Result<()> {
    let (rules, request) = (&ask.host().rules, ask.request);
    if !matches!(method, "CONNECT" | "TRACE")
        && let Ok(resolved) = path::resolve(request.path.as_bytes(), path)
        && let Some((status, location)) = rules.redirect(path, resolved.directory, request.query)
    {
        if check_access(out, ask, path, resolved.directory).await? {
            redirect(out, ask, status, &location);
        }
        return Ok(());
    }
    fail(out, ask, refused_method(method), None).await
}

/// Writes the response to one request into `out`.
pub(crate) async fn respond(
    out: &mut ResponseWriter,
    stages: Stages,
    site: &Arc<Site>,
    path: &mut Vec<u8>,
    request: &Request<'_>,
    reply: Reply,
) -> io::Result<()> {
    let Some(host) = site.host(request.host) else {
        clock::head(&mut out.buffer, site.unknown_host, reply).page();
        return Ok(());
    };
    let mut ask = Ask::new(stages, site, host, request, reply);
    let here = ask.host();
    match request.method {
        Method::Get | Method::Head => (),
        Method::Options => {
            let is_open = !here.rules.has_protected() || request.path == "*";
            if is_open || Box::pin(is_permitted(out, stages, site, path, request, reply)).await? {
                options(out, ask);
            }
            return Ok(());
        }
        // Boxed because it is rare: a connection always reserves the memory of its largest state.
        Method::Other(method) => return Box::pin(respond_to_other(out, ask, path, method)).await,
    }
    let mut resolved = match path::resolve(request.path.as_bytes(), path) {
        Ok(resolved) => resolved,
        Err(refused) => return fail(out, ask, refused.status(), None).await,
    };
    let directory = &mut resolved.directory;
    let route = if here.rules.has_protected() {
        // Boxed, as above.
        Box::pin(route_protected(out, ask, path, directory)).await?
    } else {
        here.rules.route(path, directory, request.query)
    };
    // Only `ask` is used from here on: a value held across an await enlarges every connection.
    match route {
        // The client may have chosen the rest of the path. It must not get files below a proxied path, such as scripts.
        Route::Rewritten if here.is_passed_on(path) => {
            // Boxed, as above.
            return Box::pin(fail(out, ask, Status::NotFound, None)).await;
        }
        Route::Here | Route::Rewritten => (),
        Route::Answered => return Ok(()),
        Route::Redirect(status, location) => {
            redirect(out, ask, status, &location);
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
    (*path, result) = look_up(ask.stages.files, ask.site, ask.host, std::mem::take(path)).await;
    let found = match result {
        Ok(Found::File(entry)) if !resolved.directory || !here.config.index.is_empty() => Ok(entry),
        Ok(Found::Directory) if !resolved.directory => {
            redirect_directory(out, ask, path);
            return out.send_if_full().await;
        }
        // A path with a slash at its end names a directory, not a file.
        Ok(_) | Err(Failure::Missing) => {
            Box::pin(find_fallback(&mut ask, path, resolved.directory)).await
        }
        Err(failure) => Err(fail::status(failure)),
    };
    // A fallback in the configuration may also lead below a proxied path.
    let found = found.and_then(|entry| match here.is_passed_on(path) {
        true => Err(Status::NotFound),
        false => Ok(entry),
    });
    if found.is_ok()
        && here.rules.has_protected()
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
