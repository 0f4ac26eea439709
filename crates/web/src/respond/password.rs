//! Access control for paths that require a password or an address.
//!
//! The rules are checked against every path that a request takes: the requested path, the rewritten path, and
//! the path of the file that is served. Otherwise another name for the same file would bypass a rule.

use std::io;
use std::net::{IpAddr, Ipv4Addr};

use phalanx::time::now;
use phalanx_guard::Refusal;
use phalanx_http::{FieldBlock, Status};

use crate::auth::checks::Attempt;
use crate::auth::credentials::Credentials;
use crate::files::list;
use crate::respond::ask::Ask;
use crate::respond::fail::{fail, fail_with};
use crate::respond::writer::ResponseWriter;
use crate::site::rules::Route;

/// As [`Rules::route`](crate::site::rules::Rules::route), after checking access.
///
/// # Errors
/// If the response cannot be sent.
pub(super) async fn route_protected(
    out: &mut ResponseWriter,
    ask: Ask<'_>,
    path: &mut Vec<u8>,
    directory: &mut bool,
) -> io::Result<Route> {
    if !check_access(out, ask, path, *directory).await? {
        return Ok(Route::Answered);
    }
    let route = ask.host().rules.route(path, directory, ask.request.query);
    if route == Route::Rewritten && !check_access(out, ask, path, *directory).await? {
        return Ok(Route::Answered);
    }
    Ok(route)
}

/// Returns whether the client may access `path`; if not, the response is already written. `directory` means
/// that the path names a directory.
///
/// # Errors
/// If the response cannot be sent.
pub(super) async fn check_access(
    out: &mut ResponseWriter,
    ask: Ask<'_>,
    path: &[u8],
    directory: bool,
) -> io::Result<bool> {
    let host = ask.host();
    // A listing has the access rules of its directory.
    let (path, directory) = match list::split(path) {
        Some((directory, _)) => (directory, true),
        None => (path, directory),
    };
    if !check_address(out, ask, path, directory).await? {
        return Ok(false);
    }
    let Some(rule) = host.rules.auth(path, directory) else { return Ok(true) };
    let client = out.client.as_deref().copied();
    let status = match verify(ask, rule, client).await {
        Ok(credentials) => {
            if ask.stages.log.is_some() {
                out.user = Some(Box::new(credentials));
            }
            return Ok(true);
        }
        Err(status) => status,
    };
    if status == Status::Unauthorized {
        fail_with(out, ask, status, host.rules.challenge(rule)).await?;
    } else {
        // The queue of checks is full, or the client is locked out; a retry may succeed.
        let mut fields = FieldBlock::default();
        fields.push("Retry-After", b"1");
        fail_with(out, ask, status, &fields).await?;
    }
    Ok(false)
}

/// As [`check_access`], without passwords.
///
/// # Errors
/// If the response cannot be sent.
pub(super) async fn check_address(
    out: &mut ResponseWriter,
    ask: Ask<'_>,
    path: &[u8],
    directory: bool,
) -> io::Result<bool> {
    if ask.host().rules.admits(path, directory, out.client.as_deref().copied()) {
        return Ok(true);
    }
    fail(out, ask, Status::Forbidden, None).await?;
    Ok(false)
}

/// Returns the credentials of a request from `client` if they satisfy the rule.
async fn verify(ask: Ask<'_>, rule: usize, client: Option<IpAddr>) -> Result<Credentials, Status> {
    let mut fields = ask.request.values("authorization");
    let (field, another) = (fields.next(), fields.next());
    let credentials = match (field, another) {
        (Some(field), None) => Credentials::parse(field),
        _ => None,
    };
    let credentials = credentials.ok_or(Status::Unauthorized)?;
    let passwords = &ask.host().passwords[rule];
    if passwords.is_cached(&credentials, now()) {
        return Ok(credentials);
    }
    let stage = ask.site.blocking().ok_or(Status::InternalServerError)?.passwords;
    // A client that has disconnected has no address any more.
    let client = client.unwrap_or(Ipv4Addr::UNSPECIFIED.into());
    let (passwords, own) = (passwords.clone(), credentials.clone());
    let attempt = Attempt { passwords, credentials: own, client };
    let checks = &ask.site.checks;
    match checks.verify(stage, attempt.login(checks), attempt).await {
        Ok(true) => Ok(credentials),
        Ok(false) => Err(Status::Unauthorized),
        Err(Refusal::LockedOut) => Err(Status::TooManyRequests),
        Err(Refusal::Busy) => Err(Status::ServiceUnavailable),
    }
}
