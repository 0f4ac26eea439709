//! One HTTP/2 request and its response: an operation of the control stage, handled like an HTTP/1.1 request.

use std::cell::Cell;
use std::io;
use std::net::IpAddr;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Poll};

use phalanx_http::{Status, Version};
use phalanx_http2::{Body, Closed, Code, encoder};
use phalanx_tls::Wire;

use crate::config::Timeouts;
use crate::http2::SharedConnection;
use crate::http2::answer::StreamAnswer;
use crate::proxy::{Origin, StreamClosed, StreamContent};
use crate::site::{CurrentSite, Site};
use crate::socket::answered::Answered;
use crate::socket::gauge_guard::GaugeGuard;
use crate::socket::peer::{Claims, Peer, ip_address, own_address};
use crate::stages::Stages;
use crate::streams::{self, RequestStream, StreamContext};

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
    /// Weak, because the connection may close while requests are in progress.
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

    /// Time limits of the version of the site that answers the latest request.
    pub(super) fn timeouts(&self) -> &Timeouts {
        &self.site.timeouts
    }

    /// The largest content that is received and discarded, in bytes, by that version.
    pub(super) fn body_limit(&self) -> u64 {
        self.site.limits.body
    }

    /// Requests with responses in the connection's output.
    pub(super) fn answered(&self) -> Rc<Cell<Answered>> {
        self.shared.answered.clone()
    }
}

/// Starts a request as an operation of the control stage.
pub(super) fn accept(streams: &mut Streams, request: phalanx_http2::Request) {
    let shared = streams.shared.clone();
    // If a client resets requests immediately, it has no open streams, but the server is still working on the requests.
    // So they are counted here.
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
    let Shared { connection, stages, peer, answered, .. } = &*shared;
    let phalanx_http2::Request { stream, head, has_body } = request;
    let context = StreamContext { stages: *stages, peer, answered };
    let stream = Http2Stream { shared: &shared, id: stream };
    streams::serve(context, &site, (&head, has_body), stream, Box::new(answer)).await;
    connection.borrow_mut().recycle(head);
}

/// The stream of one request.
struct Http2Stream<'a> {
    shared: &'a Shared,
    id: u32,
}

impl RequestStream for Http2Stream<'_> {
    const VERSION: Version = Version::Http2;

    fn poll_body(&mut self, context: &mut Context<'_>) -> Poll<Result<Body, StreamClosed>> {
        let body = self.shared.connection.borrow_mut().poll_body(context, self.id);
        body.map_err(|Closed| StreamClosed)
    }

    fn content(&self) -> Rc<dyn StreamContent> {
        Rc::new(Content { connection: self.shared.connection.clone(), stream: self.id })
    }

    fn address(&self) -> Option<IpAddr> {
        own_address(self.shared.transport.upgrade()?.stream())
    }

    fn origin(&self, claims: Claims) -> Option<Origin> {
        let transport = self.shared.transport.upgrade()?;
        Some(Origin::of(transport.is_tls(), claims, || ip_address(transport.stream())))
    }
}

/// The content of a request that is forwarded to another server.
struct Content {
    connection: SharedConnection,
    stream: u32,
}

impl StreamContent for Content {
    fn poll_arrival(&self, context: &mut Context<'_>) -> Poll<Result<bool, StreamClosed>> {
        let arrival = self.connection.borrow_mut().poll_arrival(context, self.stream);
        arrival.map_err(|Closed| StreamClosed)
    }

    fn poll_content(
        &self,
        context: &mut Context<'_>,
        out: &mut Vec<u8>,
    ) -> Poll<Result<bool, StreamClosed>> {
        let content = self.connection.borrow_mut().poll_content(context, self.stream, out);
        content.map_err(|Closed| StreamClosed)
    }

    fn poll_closed(&self, context: &mut Context<'_>) -> Poll<()> {
        self.connection.borrow_mut().poll_closed(context, self.stream)
    }

    fn discard(&self) {
        self.connection.borrow_mut().discard(self.stream);
    }

    fn invite(&self) -> io::Result<()> {
        let write = |block: &mut Vec<u8>| encoder::status(block, Status::Continue.code());
        let sent = self.connection.borrow_mut().interim(self.stream, write);
        sent.map_err(|error| io::Error::new(io::ErrorKind::BrokenPipe, error))
    }
}
