//! Access control for paths that require a password or an address.
//!
//! The rules are checked against every path that a request takes: the requested path, the rewritten path, and the path
//! of the file that is served. Otherwise a rule could be bypassed by another path to the same file.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use phalanx::time::now;
use phalanx_guard::Refusal;
use phalanx_http::{FieldBlock, Status};

use crate::auth::checks::Attempt;
use crate::auth::credentials::Credentials;
use crate::files::list;
use crate::respond::ask::Ask;
use crate::respond::fail::{fail, fail_with};
use crate::respond::refusal::whole_seconds;
use crate::respond::writer::ResponseWriter;
use crate::site::rules::Route;

/// Like [`Rules::route`](crate::site::rules::Rules::route), after checking access.
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
    let denial = match verify(ask, rule, client).await {
        Ok(credentials) => {
            if ask.stages.log.is_some() {
                out.user = Some(Box::new(credentials));
            }
            return Ok(true);
        }
        Err(denial) => denial,
    };
    let mut fields = FieldBlock::default();
    let (status, fields) = match denial {
        Denial::Wrong => (Status::Unauthorized, host.rules.challenge(rule)),
        Denial::Unavailable => (Status::InternalServerError, &fields),
        Denial::Later(status, wait) => {
            fields.push("Retry-After", whole_seconds(wait).to_string().as_bytes());
            (status, &fields)
        }
    };
    fail_with(out, ask, status, fields).await?;
    Ok(false)
}

/// Like [`check_access`], without passwords.
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

/// Why a request is denied.
enum Denial {
    /// It has no password, or a wrong one.
    Wrong,
    /// No password can be checked.
    Unavailable,
    /// The queue of checks is full, or the client is locked out; the client may try again after this time.
    Later(Status, Duration),
}

/// Returns the credentials of a request from `client` if they satisfy the rule.
async fn verify(ask: Ask<'_>, rule: usize, client: Option<IpAddr>) -> Result<Credentials, Denial> {
    let mut fields = ask.request.values("authorization");
    let (field, another) = (fields.next(), fields.next());
    let credentials = match (field, another) {
        (Some(field), None) => Credentials::parse(field),
        _ => None,
    };
    let credentials = credentials.ok_or(Denial::Wrong)?;
    let passwords = &ask.host().passwords[rule];
    if passwords.is_cached(&credentials, now()) {
        return Ok(credentials);
    }
    let stage = ask.site.blocking().ok_or(Denial::Unavailable)?.passwords;
    // A client that has disconnected has no address any more.
    let client = client.unwrap_or(Ipv4Addr::UNSPECIFIED.into());
    let (passwords, own) = (passwords.clone(), credentials.clone());
    let attempt = Attempt { passwords, credentials: own, client };
    let checks = &ask.site.checks;
    match checks.verify(stage, attempt.login(checks), attempt).await {
        Ok(true) => Ok(credentials),
        Ok(false) => Err(Denial::Wrong),
        Err(Refusal::LockedOut(left)) => Err(Denial::Later(Status::TooManyRequests, left)),
        Err(Refusal::Busy) => {
            Err(Denial::Later(Status::ServiceUnavailable, Duration::from_secs(1)))
        }
    }
}
