//! One request and its answer, whichever protocol it came by: whether it is let in, who answers it, and
//! what is written down of it.

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

/// What decides on a request, apart from the request.
pub(crate) struct RequestContext<'a> {
    pub(crate) site: &'a Arc<Site>,
    /// Who asks here is let in, or not.
    pub(crate) entry: &'a Option<Admission>,
    /// What the client's address may do.
    pub(crate) open: Option<&'a Open>,
    /// Everything is at this port, with TLS, and nothing here.
    pub(crate) https: Option<u16>,
}

/// Decides on one request. True when it is let in, by `permit` or with one that is put there: then it is
/// for [`respond`](crate::connection::respond::respond). Otherwise it is answered here. In
/// both cases its answer is to be followed by [`log_response`].
///
/// No future of its own: it would be a part of each connection.
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

/// Writes down how a request was answered, where requests are written down.
pub(crate) fn log_response(out: &mut Outgoing, recorder: &mut Option<AccessRecorder>) {
    if let Some(recorder) = recorder {
        if let Some(user) = out.user.take() {
            recorder.user(user.name());
        }
        let (status, bytes) = out.stats.finish(&out.bytes);
        recorder.finish(status, bytes);
    }
}
