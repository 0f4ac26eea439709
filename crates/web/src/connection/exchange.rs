//! Admission of one request and logging of its response, for both versions of HTTP.

use std::sync::Arc;

use phalanx::overload::{Admission, Permit};
use phalanx::time::now;
use phalanx_guard::Open;
use phalanx_http::{Reply, Request};

use crate::connection::health;
use crate::connection::outgoing::Outgoing;
use crate::connection::refusal::{refuse, refuse_for};
use crate::connection::respond::redirect_to_https;
use crate::log::AccessRecorder;
use crate::site::Site;

/// Inputs of the admission decision, except the request.
pub(crate) struct RequestContext<'a> {
    pub(crate) site: &'a Arc<Site>,
    /// Overload control; `None` admits every request.
    pub(crate) entry: &'a Option<Admission>,
    /// Limits of the client's address.
    pub(crate) open: Option<&'a Open>,
    /// If set, every request is redirected to this TLS port.
    pub(crate) https: Option<u16>,
}

/// Decides whether to admit a request. Returns true if it is admitted, with a permit in `permit` where
/// admission control is enabled; the caller then calls [`respond`](crate::connection::respond::respond).
/// Otherwise the response is already written. In both cases the caller finishes with [`log_response`].
///
/// Not an `async fn`, because its future would enlarge every connection.
pub(crate) fn admit(
    bytes: &mut Vec<u8>,
    context: &RequestContext<'_>,
    permit: &mut Option<Permit>,
    request: &Request<'_>,
    reply: Reply,
) -> bool {
    if health::is_asked(context.site.health.as_deref(), request) {
        health::answer(bytes, reply);
        return false;
    }
    if let Some(Err(wait)) = context.open.map(|open| open.request(now())) {
        refuse_for(bytes, wait, reply);
        return false;
    }
    if let Some(port) = context.https {
        redirect_to_https(bytes, context.site, request, port, reply);
        return false;
    }
    if let (None, Some(entry)) = (&permit, context.entry) {
        *permit = entry.admit().ok();
    }
    if permit.is_some() || context.entry.is_none() {
        return true;
    }
    refuse(bytes, reply);
    false
}

/// Records the response for the access log, if there is one.
pub(crate) fn log_response(out: &mut Outgoing, recorder: &mut Option<AccessRecorder>) {
    if let Some(recorder) = recorder {
        if let Some(user) = out.user.take() {
            recorder.user(user.name());
        }
        let (status, bytes) = out.stats.finish(&out.bytes);
        recorder.finish(status, bytes);
    }
}
