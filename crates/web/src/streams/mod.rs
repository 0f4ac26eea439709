//! The path of a request on a stream from its head to its response, shared by HTTP/2 and HTTP/3.

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use phalanx::overload::Permit;
use phalanx::time::now;
use phalanx::{CallError, timeout};
use phalanx_http::{Body as Framing, Reply, Request, Status, Version};
use phalanx_http2::{Body, Head};

use crate::log::{AccessRecorder, Flush};
use crate::metrics::CLIENT_CLOSED;
use crate::proxy::{
    Exchange, Finished, Job, Origin, Prepared, RequestBody, StreamBody, StreamClosed,
    StreamContent, lost_status, prepare,
};
use crate::respond::admit::{RequestContext, admit, admit_client};
use crate::respond::refusal::host_error_page;
use crate::respond::respond;
use crate::respond::writer::{ResponseStream, ResponseWriter};
use crate::site::Site;
use crate::socket::answered::Answered;
use crate::socket::buffers;
use crate::socket::peer::{Claims, Peer, named};
use crate::stages::Stages;
use crate::upstream::{Failure, Group};

/// Time to wait after the head of a request for the end of its stream, if it probably has no content.
const MAX_END_DELAY: Duration = Duration::from_millis(50);

/// The protocol's side of the stream of one request.
pub(crate) trait RequestStream {
    /// The version of the protocol.
    const VERSION: Version;

    /// Waits for the end of the request's content, and discards it.
    ///
    /// # Errors
    /// If the client has reset the stream, or its request is malformed.
    fn poll_body(&mut self, context: &mut Context<'_>) -> Poll<Result<Body, StreamClosed>>;

    /// The content of a request that is forwarded to another server.
    fn content(&self) -> Rc<dyn StreamContent>;

    /// Address of the connection's client; `None` if the connection has ended.
    fn address(&self) -> Option<IpAddr>;

    /// The connection's client; `None` if the connection has ended.
    fn origin(&self, claims: Claims) -> Option<Origin>;
}

/// The state of a connection that its streams use.
pub(crate) struct StreamContext<'a> {
    pub(crate) stages: Stages,
    pub(crate) peer: &'a Peer,
    /// Requests with responses in the connection's output.
    pub(crate) answered: &'a Cell<Answered>,
}

/// Handles one request, whose response `answer` receives.
pub(crate) async fn serve<S: RequestStream>(
    context: StreamContext<'_>,
    site: &Arc<Site>,
    (head, has_body): (&Head, bool),
    mut stream: S,
    answer: Box<dyn ResponseStream>,
) {
    let StreamContext { stages, peer, answered: waiting } = context;
    let began = now();
    let parsed = parse(head, has_body, site, S::VERSION);
    let group = match &parsed {
        Ok(request) if site.has_upstreams => Job::group(site, request),
        _ => None,
    };
    let mut has_left = false;
    // The body is not awaited for CONNECT, which is followed by endless tunnel data, and for a request that is
    // forwarded with its body.
    let refused = if head.is_large() {
        Some(Status::FieldsTooLarge)
    } else if !has_body || head.method() == "CONNECT" || group.is_some() {
        None
    } else if parsed.is_ok_and(|request| request.expect_continue) {
        // The client waits for 100 (Continue) before it sends the body.
        None
    } else {
        let body = poll_fn(|context| stream.poll_body(context));
        // Boxed: few requests have a body, and each would reserve memory for it.
        match Box::pin(timeout(site.timeouts.body, body)).await {
            Ok(Ok(Body::Complete)) => None,
            Ok(Ok(Body::TooLarge)) => Some(Status::ContentTooLarge),
            // The stream has ended: the client has reset it, or its request is malformed.
            Ok(Err(StreamClosed)) => {
                has_left = true;
                None
            }
            Err(_) => Some(Status::RequestTimeout),
        }
    };
    // The host of an admitted request is looked up later.
    let request = parsed.as_ref().ok();
    let host = refused.and_then(|_| site.host(request?.host));
    let named = request.and_then(|request| named(peer.proxy.as_deref(), request, site));
    let timeouts = &site.timeouts;
    let mut out = ResponseWriter::stream(answer, stages, timeouts, buffers::get());
    out.set_begun(true);
    out.alt_svc = peer.alt_svc;
    let mut recorder = peer.recorder.as_deref().map(AccessRecorder::for_stream);
    // Held until the connection has the whole response.
    let (mut permit, mut path) = (None, Vec::new());
    let own = || {
        let named = peer.pools.as_ref().and_then(|pools| pools.named);
        named.or_else(|| stream.address())
    };
    let admission = peer.admission.as_deref();
    let recounted = admission.filter(|_| named.is_none());
    let recounted = recounted.and_then(|admission| admission.recounted(site, own));
    let (https, is_tls, is_named) = (None, out.is_tls(), peer.is_named);
    let context = RequestContext { site, admission, named, recounted, https, is_tls, is_named };
    let answered = match refused.map_or(parsed, Err) {
        Ok(request) => {
            if let Some(recorder) = &mut recorder {
                recorder.request(site.logs(&request), &request, named, began);
            }
            if has_left {
                out.set_begun(false);
                out.log(recorder.as_mut(), &site.metrics);
                buffers::recycle(out.buffer.take());
                Flush::submit(recorder.as_mut().and_then(AccessRecorder::take));
                return;
            }
            if site.has_protected {
                out.client = named.or_else(own).map(Box::new);
            }
            let reply = Reply::to(&request);
            if let Some(group) = group {
                // Boxed, so that streams without such requests do not reserve its memory.
                let proxied = Box::pin(proxied(
                    (&stream, stages, peer),
                    site,
                    out,
                    &mut path,
                    (&request, reply),
                    (context, &mut permit),
                    group,
                ));
                match proxied.await {
                    Ok((own, answered)) => {
                        out = own;
                        answered
                    }
                    Err(status) => {
                        site.metrics.response(status, 0);
                        if let Some(recorder) = &mut recorder {
                            recorder.finish(None, status, 0);
                        }
                        Flush::submit(recorder.as_mut().and_then(AccessRecorder::take));
                        return;
                    }
                }
            } else if admit(&mut out.buffer, &context, &mut permit, &request, reply) {
                respond(&mut out, stages, site, &mut path, &request, reply).await
            } else {
                Ok(())
            }
        }
        Err(status) => {
            if let Some(recorder) = &mut recorder {
                let line = [head.method(), " ", head.path(), " ", S::VERSION.name()];
                recorder.record_rejected(&site.logs, &line.map(str::as_bytes), began);
            }
            let head_only = head.method() == "HEAD";
            let reply = Reply { version: S::VERSION, keep_alive: true, head_only };
            let fields = host.and_then(|host| site.transport_fields(host, out.is_tls()));
            if admit_client(&mut out.buffer, &context, reply, || fields) {
                host_error_page(&mut out.buffer, status, reply, fields);
            }
            Ok(())
        }
    };
    out.log(recorder.as_mut(), &site.metrics);
    buffers::recycle(out.end(answered).await);
    let mut requests = waiting.get();
    requests.add(began);
    waiting.set(requests);
    Flush::submit(recorder.as_mut().and_then(AccessRecorder::take));
}

/// Forwards a request to another server. Returns the writer.
///
/// # Errors
/// The status to record if the writer is lost, and with it the response.
async fn proxied<S: RequestStream>(
    (stream, stages, peer): (&S, Stages, &Peer),
    site: &Arc<Site>,
    mut out: ResponseWriter,
    path: &mut Vec<u8>,
    (request, reply): (&Request<'_>, Reply),
    (context, permit): (RequestContext<'_>, &mut Option<Permit>),
    group: &Arc<Group>,
) -> Result<(ResponseWriter, io::Result<()>), u16> {
    let begun = (&mut out, &mut *permit, path);
    let content = stream.content();
    let mut request = *request;
    let may_end = request.body == Framing::Chunked && !request.expect_continue;
    if request.method.reads() && may_end && has_ended(&*content).await {
        request.body = Framing::None;
    }
    let request = (&request, reply);
    let pools = peer.pools.as_ref().ok_or(CLIENT_CLOSED)?;
    let named = (peer.proxy.as_deref(), context.named);
    let claims = Claims::of(named, Some(pools), request.0, site);
    let origin = stream.origin(claims).ok_or(CLIENT_CLOSED)?;
    let job = match prepare(begun, stages, context, group, request, origin).await {
        Ok(Prepared::Job(job)) => job,
        Ok(_) => return Ok((out, Ok(()))),
        Err(error) => return Ok((out, Err(error))),
    };
    // While it waits for the server, the request causes no load here, so it does not keep its permit.
    *permit = None;
    let (counters, site, pools) = (&site.upstreams, site.clone(), pools.pools.clone());
    let body = RequestBody::Stream(StreamBody::new(content, &job));
    // No server gets the request before its operation begins.
    out.set_begun(false);
    let exchange = Exchange { job, site, pools, out, body, reply };
    match exchange.start().await {
        Ok(Finished { out, end, .. }) => Ok((out, end.map(drop))),
        // The operation limit is reached, and the stream was refused.
        Err(error) => {
            if let CallError::Full { .. } = error {
                counters.failure(Failure::Exhausted);
            }
            Err(lost_status(&error))
        }
    }
}

/// Waits briefly for the first content of a request whose method usually has none. Returns whether it has none. The end
/// of the stream may arrive in a separate frame; without this wait, the server would get an empty body, and the request
/// could not be repeated.
async fn has_ended(content: &dyn StreamContent) -> bool {
    let arrival = poll_fn(|context| content.poll_arrival(context));
    matches!(timeout(MAX_END_DELAY, arrival).await, Ok(Ok(false)))
}

/// The request with this head.
fn parse<'a>(
    head: &'a Head,
    has_body: bool,
    site: &Site,
    version: Version,
) -> Result<Request<'a>, Status> {
    let parts = [head.method(), head.path(), head.authority().unwrap_or_default()];
    let request = Request::from_fields(parts, head.lines(), head.fields(), &site.limits);
    let mut request = request.map_err(|reject| reject.status)?;
    request.version = version;
    request.body = match head.content_length() {
        None if has_body => Framing::Chunked,
        Some(length @ 1..) if has_body => Framing::Length(length),
        _ => Framing::None,
    };
    request.expect_continue = request.body != Framing::None
        && request.values("expect").any(|value| value.eq_ignore_ascii_case(b"100-continue"));
    Ok(request)
}
