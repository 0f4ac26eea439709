//! One HTTP/3 request and its response: an operation of the control stage, handled like an HTTP/1.1 request.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use phalanx::time::now;
use phalanx::timeout;
use phalanx_http::{Status, Version};
use phalanx_http2::Body;
use phalanx_http3::Limits;
use phalanx_quic::{ReceiveStream, SendStream};

use crate::http3::answer::{StreamAnswer, Tails};
use crate::http3::content::{Content, Incoming};
use crate::http3::lifetime::Requests;
use crate::http3::outgoing::{Outgoing, SharedFlood};
use crate::log::{AccessRecorder, Flush};
use crate::proxy::{Origin, StreamClosed, StreamContent};
use crate::site::{CurrentSite, Site};
use crate::socket::answered::Answered;
use crate::socket::gauge_guard::GaugeGuard;
use crate::socket::peer::{Claims, Peer};
use crate::stages::Stages;
use crate::streams::{self, RequestStream, StreamContext};

/// State shared by a connection's streams.
pub(super) struct Streams {
    shared: Rc<Shared>,
    current: CurrentSite,
    /// Version of the site for the next request.
    site: Arc<Site>,
    /// Streams whose heads have not arrived; QUIC bounds the number of all streams.
    headless: Rc<Cell<usize>>,
}

/// The parts of [`Streams`] that every stream uses.
struct Shared {
    stages: Stages,
    peer: Peer,
    address: IpAddr,
    tails: Tails,
    flood: SharedFlood,
    /// Requests in progress whose heads have arrived.
    begun: Rc<Cell<usize>>,
    /// Heads that have arrived.
    heads: Cell<u64>,
    /// Requests with responses that are not sent yet.
    answered: Cell<Answered>,
}

impl Streams {
    pub(super) fn new(
        (stages, current, site): (Stages, CurrentSite, Arc<Site>),
        peer: Peer,
        address: IpAddr,
        flood: SharedFlood,
    ) -> Self {
        let (tails, begun, heads, answered) = Default::default();
        let shared = Shared { stages, peer, address, tails, flood, begun, heads, answered };
        Self { shared: Rc::new(shared), current, site, headless: Rc::default() }
    }

    /// The streams of requests.
    pub(super) fn requests(&self) -> Requests {
        let Shared { begun, heads, .. } = &*self.shared;
        Requests { begun: begun.get(), headless: self.headless.get(), heads: heads.get() }
    }

    /// Takes the requests whose responses were written.
    pub(super) fn take_answered(&self) -> Answered {
        self.shared.answered.take()
    }

    /// Sends the ends of responses that wait for the client's window.
    pub(super) fn poll_tails(&self, context: &mut Context<'_>) {
        let mut tails = self.shared.tails.borrow_mut();
        tails.retain(|tail| tail.borrow_mut().poll_flush(context).is_pending());
    }

    /// Refuses a request; the client may repeat it on another connection.
    pub(super) fn refuse(&self, receive: ReceiveStream, send: SendStream) {
        drop(self.parts(receive, send));
    }

    fn parts(&self, receive: ReceiveStream, send: SendStream) -> (Incoming, StreamAnswer) {
        let outgoing = Rc::new(RefCell::new(Outgoing::new(send, self.shared.flood.clone())));
        let limits = Limits { head: self.site.limits.head };
        let answer = StreamAnswer::new(outgoing.clone(), self.shared.tails.clone());
        (Incoming::new(receive, limits, outgoing), answer)
    }

    /// Starts a request as an operation of the control stage.
    pub(super) fn accept(&mut self, receive: ReceiveStream, send: SendStream) {
        self.current.refresh(&mut self.site);
        let (incoming, answer) = self.parts(receive, send);
        let (shared, site) = (self.shared.clone(), self.site.clone());
        let headless = GaugeGuard::new(&self.headless);
        // If the operation limit is reached, the answer is dropped, which rejects the request.
        let control = shared.stages.control;
        let _ = control.dispatch(move |_| async move {
            serve(shared, site, (incoming, headless), answer).await;
        });
    }
}

/// Handles one request. `headless` counts its stream until the head has arrived.
async fn serve(
    shared: Rc<Shared>,
    site: Arc<Site>,
    (mut incoming, headless): (Incoming, GaugeGuard),
    answer: StreamAnswer,
) {
    let began = now();
    let head = poll_fn(|context| incoming.poll_head(context));
    // Boxed because it is rare: nearly all heads have arrived when their stream opens.
    let (head, has_body) = match Box::pin(timeout(site.timeouts.request, head)).await {
        Ok(Ok(head)) => head,
        Ok(Err(StreamClosed)) => return,
        Err(_) => return late(&shared, &site, began),
    };
    drop(headless);
    let _begun = GaugeGuard::new(&shared.begun);
    shared.heads.set(shared.heads.get() + 1);
    let Shared { stages, peer, answered, address, .. } = &*shared;
    let context = StreamContext { stages: *stages, peer, answered };
    let (outgoing, limit) = (answer.outgoing(), site.limits.body);
    let incoming = Rc::new(RefCell::new(incoming));
    let stream = Http3Stream { incoming, outgoing, address: *address, limit };
    streams::serve(context, &site, (&head, has_body), stream, Box::new(answer)).await;
}

/// Counts and records a request whose head has not arrived in time. It is rejected when its answer is dropped, so the
/// client may repeat it.
#[cold]
fn late(shared: &Shared, site: &Arc<Site>, began: Duration) {
    let status = Status::RequestTimeout.code();
    site.metrics.response(status, 0);
    if let Some(recorder) = shared.peer.recorder.as_deref() {
        let mut recorder = AccessRecorder::for_stream(recorder);
        recorder.record_rejected(&site.logs, &[b"  ", Version::Http3.name().as_bytes()], began);
        recorder.finish(None, status, 0);
        Flush::submit(recorder.take());
    }
}

/// The stream of one request.
struct Http3Stream {
    incoming: Rc<RefCell<Incoming>>,
    outgoing: Rc<RefCell<Outgoing>>,
    /// The client.
    address: IpAddr,
    /// The largest content that is read and discarded, in bytes.
    limit: u64,
}

impl RequestStream for Http3Stream {
    const VERSION: Version = Version::Http3;

    fn poll_body(&mut self, context: &mut Context<'_>) -> Poll<Result<Body, StreamClosed>> {
        self.incoming.borrow_mut().poll_body(context, self.limit)
    }

    fn content(&self) -> Rc<dyn StreamContent> {
        let (incoming, outgoing) = (self.incoming.clone(), self.outgoing.clone());
        Rc::new(Content { incoming, outgoing })
    }

    fn address(&self) -> Option<IpAddr> {
        Some(self.address)
    }

    fn origin(&self, claims: Claims) -> Option<Origin> {
        Some(Origin {
            address: Some(claims.address.unwrap_or(self.address)),
            is_tls: claims.is_tls.unwrap_or(true),
            field: claims.field,
        })
    }
}
