//! Redirects.

use phalanx_http::{Reply, Request, ResponseBuffer, Status, path};

use crate::clock;
use crate::respond::ask::Ask;
use crate::respond::writer::ResponseWriter;
use crate::site::Site;

/// Redirects the client to `location`.
pub(super) fn redirect(out: &mut ResponseWriter, ask: Ask<'_>, status: Status, location: &[u8]) {
    ask.head(out, status).field("Location", location).page();
}

/// Redirects a directory's URL without a trailing slash to the URL with one.
pub(super) fn redirect_directory(out: &mut ResponseWriter, ask: Ask<'_>, resolved: &[u8]) {
    let mut location = Vec::new();
    path::redirect_location(resolved, ask.request.query, &mut location);
    redirect(out, ask, Status::MovedPermanently, &location);
}

/// Redirects the client to the same URL over TLS.
#[cold]
pub(super) fn redirect_to_https(
    out: &mut ResponseBuffer,
    site: &Site,
    request: &Request<'_>,
    port: u16,
    reply: Reply,
) {
    let name = match site.redirect_name(request.host) {
        Ok(name) => name,
        Err(status) => {
            clock::head(out, status, reply).page();
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
    clock::head(out, Status::PermanentRedirect, reply).field("Location", &location).page();
}
