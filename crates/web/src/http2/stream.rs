//! One HTTP/2 request and its response: an operation of the control stage, handled like an HTTP/1.1 request.

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;

use h2::server::SendResponse;
use h2::{Reason, RecvStream};
use http::{Method, Request};
use phalanx::net::Bytes;
use phalanx::overload::Admission;
use phalanx::time::now;
use phalanx::timeout;
use phalanx_http::{Reply, Status, Version};

use crate::http2::answer::StreamAnswer;
use crate::http2::request;
use crate::log::{AccessRecorder, Flush};
use crate::respond::admit::{RequestContext, admit};
use crate::respond::refusal::error_page;
use crate::respond::respond;
use crate::respond::writer::ResponseWriter;
use crate::site::{CurrentSite, Site};
use crate::socket::buffers;
use crate::socket::gauge_guard::GaugeGuard;
use crate::socket::peer::Peer;
use crate::stages::Stages;

/// State shared by a connection's streams.
#[derive(Clone)]
pub(super) struct Streams {
    stages: Stages,
    current: CurrentSite,
    /// Version of the site for the next request.
    site: Arc<Site>,
    entry: Option<Admission>,
    peer: Rc<Peer>,
    /// Requests in progress.
    open: Rc<Cell<usize>>,
    bound: usize,
    /// Whether the connection uses TLS.
    is_tls: bool,
}

impl Streams {
    pub(super) fn new(
        stages: Stages,
        current: CurrentSite,
        site: Arc<Site>,
        entry: Option<Admission>,
        peer: Peer,
        bound: usize,
        is_tls: bool,
    ) -> Self {
        let (peer, open) = (Rc::new(peer), Rc::default());
        Self { stages, current, site, entry, peer, open, bound, is_tls }
    }
}

/// Starts a request as an operation of the control stage.
pub(super) fn accept(
    streams: &mut Streams,
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
) {
    // A client that resets its requests immediately has no open streams by its own count, but the server is
    // still working on them.
    if streams.open.get() >= streams.bound {
        respond.send_reset(Reason::REFUSED_STREAM);
        return;
    }
    let open = GaugeGuard::new(&streams.open);
    streams.current.refresh(&mut streams.site);
    let own = streams.clone();
    // If the operation limit is reached, the handle of the stream is dropped, which resets the stream.
    let _ = streams.stages.control.dispatch(move |_| async move {
        let _open = open;
        serve(own, request, respond).await;
    });
}

/// Handles one request.
async fn serve(streams: Streams, request: Request<RecvStream>, response: SendResponse<Bytes>) {
    let Streams { stages, site, entry, peer, is_tls, .. } = streams;
    let answer = StreamAnswer::new(response, is_tls);
    let began = now();
    let (head, body) = request.into_parts();
    let Some(parts) = request::parts(&head) else { return answer.reset(Reason::PROTOCOL_ERROR) };
    // A CONNECT request is followed by tunnel data without an end.
    let body = if head.method == Method::CONNECT || body.is_end_stream() {
        None
    } else {
        // Boxed: few requests have a body, and each would reserve memory for it.
        let body = Box::pin(discard(body, site.limits.body));
        match timeout(site.timeouts.body, body).await {
            Ok(Ok(Body::Whole)) => None,
            Ok(Ok(Body::TooLarge)) => Some(Status::ContentTooLarge),
            Ok(Ok(Body::Malformed)) => return answer.reset(Reason::PROTOCOL_ERROR),
            // The client has reset the stream, or h2 has reported an error to it.
            Ok(Err(_)) => return,
            Err(_) => Some(Status::RequestTimeout),
        }
    };
    let mut out = ResponseWriter::stream(Box::new(answer), stages, &site.timeouts, buffers::get());
    let mut recorder = peer.recorder.as_ref().map(AccessRecorder::for_stream);
    // Held until h2 has all of the response.
    let (mut permit, mut path) = (None, Vec::new());
    let mut lines = buffers::get();
    request::write_lines(&head, &mut lines);
    let parsed = match (request::request(&head, parts, &lines, &site.limits), body) {
        (Ok(request), None) => Ok(request),
        (Ok(_), Some(status)) => Err(status),
        (Err(reject), _) => Err(reject.status),
    };
    let answered = match parsed {
        Ok(request) => {
            if let Some(recorder) = &mut recorder {
                recorder.request(&request, began);
            }
            let (reply, open) = (Reply::to(&request), peer.open.as_ref());
            let context = RequestContext { site: &site, entry: &entry, open, https: None };
            if admit(&mut out.buffer, &context, &mut permit, &request, reply) {
                respond(&mut out, stages, &site, &mut path, &request, reply).await
            } else {
                Ok(())
            }
        }
        Err(status) => {
            if let Some(recorder) = &mut recorder {
                let [method, target, _] = parts.map(str::as_bytes);
                let version = Version::Http2.name().as_bytes();
                recorder.rejected(&[method, b" ", target, b" ", version], began);
            }
            let head_only = head.method == Method::HEAD;
            let reply = Reply { version: Version::Http2, keep_alive: true, head_only };
            error_page(&mut out.buffer, status, reply);
            Ok(())
        }
    };
    out.log(&mut recorder);
    buffers::recycle(out.end(answered).await);
    buffers::recycle(lines);
    Flush::submit(recorder.as_mut().and_then(AccessRecorder::take));
}

/// Result of reading a body.
enum Body {
    Whole,
    TooLarge,
    /// A trailer is malformed.
    Malformed,
}

/// Reads and discards a body. The request is answered once it is complete, because until then it may turn out
/// to be malformed.
async fn discard(mut body: RecvStream, limit: u64) -> Result<Body, h2::Error> {
    let mut received = 0;
    while let Some(data) = poll_fn(|context| body.poll_data(context)).await {
        let length = data?.len();
        received += length as u64;
        if received > limit {
            return Ok(Body::TooLarge);
        }
        body.flow_control().release_capacity(length)?;
    }
    let trailers = poll_fn(|context| body.poll_trailers(context)).await?;
    let well_formed = trailers.as_ref().is_none_or(request::are_well_formed);
    Ok(if well_formed { Body::Whole } else { Body::Malformed })
}
