//! One HTTP/2 request and its response: an operation of the control stage, handled like an HTTP/1.1 request.

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use phalanx::overload::Permit;
use phalanx::time::now;
use phalanx::{CallError, timeout};
use phalanx_http::{Body as Framing, Reply, Request, Status, Version};
use phalanx_http2::{Body, Code, Head};
use phalanx_tls::Wire;

use crate::http2::SharedConnection;
use crate::http2::answer::StreamAnswer;
use crate::log::{AccessRecorder, Flush};
use crate::proxy::{Exchange, Finished, Job, Origin, Prepared, RequestBody, StreamBody, prepare};
use crate::respond::admit::{RequestContext, admit};
use crate::respond::refusal::error_page;
use crate::respond::respond;
use crate::respond::writer::ResponseWriter;
use crate::site::{CurrentSite, Site};
use crate::socket::answered::Answered;
use crate::socket::buffers;
use crate::socket::gauge_guard::GaugeGuard;
use crate::socket::peer::{Peer, named, named_tls};
use crate::stages::Stages;
use crate::upstream::{Failure, Group};

/// State shared by a connection's streams.
pub(super) struct Streams {
    shared: Rc<Shared>,
    current: CurrentSite,
    /// Version of the site for the next request.
    site: Arc<Site>,
    /// Requests in progress.
    open: Rc<Cell<usize>>,
    bound: usize,
}

/// The parts of [`Streams`] that every stream uses.
struct Shared {
    connection: SharedConnection,
    stages: Stages,
    peer: Peer,
    /// Weak, since the connection closes also while requests are in progress.
    transport: Weak<Wire>,
    is_tls: bool,
    /// Requests with responses in the connection's output.
    answered: Rc<Cell<Answered>>,
}

impl Streams {
    pub(super) fn new(
        connection: SharedConnection,
        (stages, current, site): (Stages, CurrentSite, Arc<Site>),
        peer: Peer,
        bound: usize,
        transport: &Rc<Wire>,
    ) -> Self {
        let (answered, is_tls) = (Rc::default(), transport.is_tls());
        let transport = Rc::downgrade(transport);
        let shared = Rc::new(Shared { connection, stages, peer, transport, is_tls, answered });
        Self { shared, current, site, open: Rc::default(), bound }
    }

    /// Requests with responses in the connection's output.
    pub(super) fn answered(&self) -> Rc<Cell<Answered>> {
        self.shared.answered.clone()
    }
}

/// Starts a request as an operation of the control stage.
pub(super) fn accept(streams: &mut Streams, request: phalanx_http2::Request) {
    let shared = streams.shared.clone();
    // A client that resets its requests immediately has no open streams by its own count, but the server is
    // still working on them.
    if streams.open.get() >= streams.bound {
        shared.connection.borrow_mut().reset(request.stream, Code::REFUSED_STREAM);
        return;
    }
    let open = GaugeGuard::new(&streams.open);
    streams.current.refresh(&mut streams.site);
    let (site, control) = (streams.site.clone(), shared.stages.control);
    let answer = StreamAnswer::new(shared.connection.clone(), request.stream, shared.is_tls);
    // If the operation limit is reached, the answer is dropped, which refuses the stream.
    let _ = control.dispatch(move |_| async move {
        let _open = open;
        serve(shared, site, request, answer).await;
    });
}

/// Handles one request.
async fn serve(
    shared: Rc<Shared>,
    site: Arc<Site>,
    request: phalanx_http2::Request,
    answer: StreamAnswer,
) {
    let Shared { connection, stages, peer, .. } = &*shared;
    let phalanx_http2::Request { stream, head, has_body } = request;
    let began = now();
    let parsed = parse(&head, has_body, &site);
    let group = match &parsed {
        Ok(request) if site.has_upstreams => Job::group(&site, request),
        _ => None,
    };
    // A CONNECT request is followed by tunnel data without an end. A request that is passed to another server takes its
    // body along.
    let refused = if head.is_large() {
        Some(Status::FieldsTooLarge)
    } else if !has_body || head.method() == "CONNECT" || group.is_some() {
        None
    } else {
        let body = poll_fn(|context| connection.borrow_mut().poll_body(context, stream));
        // Boxed: few requests have a body, and each would reserve memory for it.
        match Box::pin(timeout(site.timeouts.body, body)).await {
            Ok(Ok(Body::Complete)) => None,
            Ok(Ok(Body::TooLarge)) => Some(Status::ContentTooLarge),
            // The stream has ended: the client has reset it, or its request is malformed.
            Ok(Err(_)) => return,
            Err(_) => Some(Status::RequestTimeout),
        }
    };
    let timeouts = &site.timeouts;
    let mut out = ResponseWriter::stream(Box::new(answer), *stages, timeouts, buffers::get());
    out.set_begun(true);
    let mut recorder = peer.recorder.as_deref().map(AccessRecorder::for_stream);
    // Held until the connection has all of the response.
    let (mut permit, mut path) = (None, Vec::new());
    let answered = match refused.map_or(parsed, Err) {
        Ok(request) => {
            let named = named(peer.proxy.as_deref(), &request, &site);
            if let Some(recorder) = &mut recorder {
                recorder.request(site.logs(&request), &request, named, began);
            }
            let (reply, open) = (Reply::to(&request), peer.open.as_ref());
            let context = RequestContext { site: &site, open, named, https: None };
            if let Some(group) = group {
                // Boxed, so that streams without such requests do not reserve its memory.
                let proxied = Box::pin(proxied(
                    &shared,
                    &site,
                    out,
                    &mut path,
                    (&request, reply),
                    (context, &mut permit),
                    (group, stream),
                ));
                match proxied.await {
                    Some((own, answered)) => {
                        out = own;
                        answered
                    }
                    // The operation limit is reached, and the stream was refused.
                    None => return,
                }
            } else if admit(&mut out.buffer, &context, &mut permit, &request, reply) {
                respond(&mut out, *stages, &site, &mut path, &request, reply).await
            } else {
                Ok(())
            }
        }
        Err(status) => {
            if let Some(recorder) = &mut recorder {
                let line = [head.method(), " ", head.path(), " ", Version::Http2.name()];
                recorder.rejected(&site.logs, &line.map(str::as_bytes), began);
            }
            let head_only = head.method() == "HEAD";
            let reply = Reply { version: Version::Http2, keep_alive: true, head_only };
            error_page(&mut out.buffer, status, reply);
            Ok(())
        }
    };
    out.log(recorder.as_mut(), &site.metrics);
    buffers::recycle(out.end(answered).await);
    let mut waiting = shared.answered.get();
    waiting.add(began);
    shared.answered.set(waiting);
    connection.borrow_mut().recycle(head);
    Flush::submit(recorder.as_mut().and_then(AccessRecorder::take));
}

/// Passes a request to another server. Returns the writer; `None` if it is lost.
async fn proxied(
    shared: &Shared,
    site: &Arc<Site>,
    mut out: ResponseWriter,
    path: &mut Vec<u8>,
    (request, reply): (&Request<'_>, Reply),
    (context, permit): (RequestContext<'_>, &mut Option<Permit>),
    (group, stream): (&Arc<Group>, u32),
) -> Option<(ResponseWriter, io::Result<()>)> {
    let begun = (&mut out, &mut *permit, path);
    let request = (request, reply);
    let (peer, transport) = (&shared.peer, shared.transport.upgrade()?);
    let pools = peer.pools.as_ref()?;
    let is_tls = named_tls(peer.proxy.as_deref(), request.0, site);
    let origin = Origin::of(&transport, context.named.or(pools.named), is_tls);
    drop(transport);
    let job = match prepare(begun, shared.stages, context, group, request, origin).await {
        Ok(Prepared::Job(job)) => job,
        Ok(_) => return Some((out, Ok(()))),
        Err(error) => return Some((out, Err(error))),
    };
    // Waiting for a server is no work of this one.
    *permit = None;
    let (counters, site, pools) = (&site.upstreams, site.clone(), pools.pools.clone());
    let body = RequestBody::Stream(StreamBody::new(shared.connection.clone(), stream, &job));
    // Until its operation begins, no server gets the request.
    out.set_begun(false);
    let exchange = Exchange { job, site, pools, out, body, reply };
    match exchange.start().await {
        Ok(Finished { out, end, .. }) => Some((out, end.map(drop))),
        Err(error) => {
            if matches!(error, CallError::Full { .. }) {
                counters.failure(Failure::Exhausted);
            }
            None
        }
    }
}

/// The request with this head.
fn parse<'a>(head: &'a Head, has_body: bool, site: &Site) -> Result<Request<'a>, Status> {
    let parts = [head.method(), head.path(), head.authority().unwrap_or_default()];
    let request = Request::from_fields(parts, head.lines(), head.fields(), &site.limits);
    let mut request = request.map_err(|reject| reject.status)?;
    request.body = match head.content_length() {
        None if has_body => Framing::Chunked,
        Some(length @ 1..) if has_body => Framing::Length(length),
        _ => Framing::None,
    };
    request.expect_continue = request.body != Framing::None
        && request.values("expect").any(|value| value.eq_ignore_ascii_case(b"100-continue"));
    Ok(request)
}
