//! One HTTP/2 request and its response: an operation of the control stage, handled like an HTTP/1.1 request.

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use h2::server::SendResponse;
use h2::{Reason, RecvStream};
use http::{Method, Request};
use phalanx::net::Bytes;
use phalanx::overload::Admission;
use phalanx::time::now;
use phalanx::timeout;
use phalanx_http::{Parse, Reply, Status, error_page, parse};

use crate::connection::buffers;
use crate::connection::clock::with_date;
use crate::connection::exchange::{RequestContext, admit, log_response};
use crate::connection::gauge_guard::GaugeGuard;
use crate::connection::outgoing::{Outgoing, To};
use crate::connection::pace::Pace;
use crate::connection::peer::Peer;
use crate::connection::respond::respond;
use crate::connection::response_stats::ResponseStats;
use crate::http2::answer::StreamAnswer;
use crate::http2::request;
use crate::log::{AccessRecorder, Flush};
use crate::site::{CurrentSite, Site};
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
    let head_only = request.method() == Method::HEAD;
    // A CONNECT request is followed by tunnel data without an end.
    let is_connect = request.method() == Method::CONNECT;
    let answer = StreamAnswer::new(response, head_only, is_tls);
    let (began, mut head) = (now(), buffers::get());
    if !request::write(&request, &mut head) {
        return answer.reset(Reason::PROTOCOL_ERROR);
    }
    let body = request.into_body();
    let body = if is_connect || body.is_end_stream() {
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
    let mut out = Outgoing {
        to: To::Stream(Box::new(answer)),
        stages,
        pace: Pace::new(&site.timeouts),
        bytes: buffers::get(),
        stats: ResponseStats::default(),
        user: None,
    };
    let mut recorder = peer.recorder.as_ref().map(AccessRecorder::for_stream);
    // Held until h2 has all of the response.
    let (mut permit, mut path) = (None, Vec::new());
    let parsed = match (parse(&head, &site.limits), body) {
        // The request is complete, so an incomplete head is malformed.
        (Ok(Parse::Incomplete), _) => Err(Status::BadRequest),
        (Ok(Parse::Complete(request, _)), None) => Ok(request),
        (Ok(_), Some(status)) => Err(status),
        (Err(reject), _) => Err(reject.status),
    };
    let answered = match parsed {
        Ok(mut request) => {
            let line = recorder.as_ref().map(|_| line(request.line));
            if let (Some(recorder), Some(line)) = (&mut recorder, &line) {
                request.line = line;
                recorder.request(&request, began);
                out.stats.begin(&out.bytes);
            }
            let reply = Reply { keep_alive: true, ..Reply::to(&request) };
            let open = peer.open.as_ref();
            let context = RequestContext { site: &site, entry: &entry, open, https: None };
            let answered = if admit(&mut out.bytes, &context, &mut permit, &request, reply) {
                respond(&mut out, stages, &site, &mut path, &request, reply).await
            } else {
                Ok(())
            };
            log_response(&mut out, &mut recorder);
            answered
        }
        Err(status) => {
            if let Some(recorder) = &mut recorder {
                recorder.rejected(&line(&head), began);
                out.stats.begin(&out.bytes);
            }
            let reply = Reply { minor: 1, keep_alive: true, head_only };
            with_date(|date| error_page(&mut out.bytes, status, date, reply));
            log_response(&mut out, &mut recorder);
            Ok(())
        }
    };
    let sent = match answered {
        Ok(()) => out.send().await,
        Err(error) => Err(error),
    };
    Flush::submit(recorder.as_mut().and_then(AccessRecorder::take));
    buffers::recycle(head);
    buffers::recycle(out.bytes);
    let To::Stream(answer) = out.to else { return };
    match sent {
        Ok(()) => answer.end(),
        // The client did not open its window in time. This is no server error (RFC 9113 §7).
        Err(error) if error.kind() == io::ErrorKind::TimedOut => answer.reset(Reason::CANCEL),
        Err(_) => answer.reset(Reason::INTERNAL_ERROR),
    }
}

/// The request line for the access log, with the actual protocol version.
fn line(head: &[u8]) -> Vec<u8> {
    let line = head.split(|&byte| byte == b'\r').next().unwrap_or_default();
    let line = line.strip_suffix(b"1.1").unwrap_or(line);
    [line, b"2.0"].concat()
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
