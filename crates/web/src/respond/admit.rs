//! Admission of one request, for all versions of HTTP.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use phalanx::overload::{Ingress, Permit};
use phalanx::time::now;
use phalanx_http::{FieldBlock, Reply, Request, ResponseBuffer, Status};

use crate::clock;
use crate::respond::health;
use crate::respond::redirect::redirect_to_https;
use crate::respond::refusal::{host_error_page, refuse, refuse_for};
use crate::site::Site;
use crate::socket::peer::Admission;

/// Inputs of the admission decision, except the request.
pub(crate) struct RequestContext<'a> {
    pub(crate) site: &'a Arc<Site>,
    pub(crate) admission: Option<&'a Admission>,
    /// The client that a trusted proxy has named.
    pub(crate) named: Option<IpAddr>,
    /// The client's address, if its connection [was opened under other limits](Admission::recounted).
    pub(crate) recounted: Option<IpAddr>,
    /// If set, every request is redirected to this TLS port.
    pub(crate) https: Option<u16>,
    /// Whether the connection uses TLS.
    pub(crate) is_tls: bool,
    /// Whether a PROXY header has named the client of the connection.
    pub(crate) is_named: bool,
}

impl RequestContext<'_> {
    /// Counts the request towards the limit of its client.
    ///
    /// # Errors
    /// If there are too many: the time until the next one is admitted.
    fn count_request(&self) -> Result<(), Duration> {
        let Some(limits) = &self.site.addresses else { return Ok(()) };
        match (self.named.or(self.recounted), self.admission) {
            (Some(address), _) => limits.request(self.site.address_key(address), now()),
            (None, Some(admission)) => admission.count_request(limits),
            (None, None) => Ok(()),
        }
    }

    /// Whether the connection comes from a trusted gateway, which may have received the request over TLS.
    fn is_from_gateway(&self) -> bool {
        self.named.is_some() || self.is_named
    }

    /// The fields of all responses of the host.
    fn fields(&self, request: &Request<'_>) -> Option<&FieldBlock> {
        self.site.transport_fields(self.site.host(request.host)?, self.is_tls)
    }
}

/// Admits the client of a request, and counts the request towards the client's limit. Returns false if it is refused;
/// the response, with the `fields` of the host, is then already written.
#[inline]
pub(crate) fn admit_client<'a>(
    out: &mut ResponseBuffer,
    context: &RequestContext<'_>,
    reply: Reply,
    fields: impl FnOnce() -> Option<&'a FieldBlock>,
) -> bool {
    if context.named.is_some_and(|named| !context.site.admits(named)) {
        host_error_page(out, Status::Forbidden, reply, fields());
        return false;
    }
    if let Err(wait) = context.count_request() {
        refuse_for(out, wait, reply, fields());
        return false;
    }
    true
}

/// Decides whether to admit a request. Returns true if it is admitted, with a permit in `permit`; the caller then calls
/// [`respond`](crate::respond::respond). Otherwise the response is already written. In both cases the caller logs it
/// with [`ResponseWriter::log`](crate::respond::writer::ResponseWriter::log).
///
/// Not an `async fn`, because its future would enlarge every connection.
pub(crate) fn admit(
    out: &mut ResponseBuffer,
    context: &RequestContext<'_>,
    permit: &mut Option<Permit>,
    request: &Request<'_>,
    reply: Reply,
) -> bool {
    if health::is_health_check(context.site.health.as_deref(), request) {
        health::answer(out, reply);
        return false;
    }
    if let Some(body) = context.site.challenges.find(request.path) {
        // Challenges are answered before the redirect to TLS: an authority would follow it, but fail at a host without
        // a certificate.
        clock::head(out, Status::Ok, reply).whole("application/octet-stream", &[&body]);
        return false;
    }
    if !admit_client(out, context, reply, || context.fields(request)) {
        return false;
    }
    if let Some(port) = context.https {
        let port = context.site.https_port.unwrap_or(port);
        redirect_to_https(out, context.site, request, port, reply);
        return false;
    }
    if request.has_https_target() && !context.is_tls && !context.is_from_gateway() {
        host_error_page(out, Status::MisdirectedRequest, reply, context.fields(request));
        return false;
    }
    if permit.is_none() {
        *permit = Ingress::admit().ok();
    }
    if permit.is_some() {
        return true;
    }
    refuse(out, Status::ServiceUnavailable, reply, context.fields(request));
    false
}
