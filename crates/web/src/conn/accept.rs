//! Accept loops, and the first steps of a connection.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use phalanx::SharedStage;
use phalanx::net::{IoTimeout, Listener, Stream};
use phalanx::overload::Admission;
use phalanx_http::Status;
use phalanx_service::{ConnectionLimit, ListenerControl};
use phalanx_tls::{Failed, TlsStages, Wire};

use crate::config::ListenerKind;
use crate::conn::reject::reject;
use crate::http1::Connection;
use crate::http2;
use crate::metrics::Refused;
use crate::site::{CurrentSite, Site};
use crate::socket::peer::Peer;
use crate::stages::{AcceptStages, HTTP2, Stages};

/// State shared by the listeners of one processor.
#[derive(Clone)]
pub(crate) struct AcceptContext {
    stages: Stages,
    accept_stages: AcceptStages,
    current: CurrentSite,
    entry: Option<Admission>,
    /// Open connections of all processors.
    open: Arc<ConnectionLimit>,
    /// Connections of this processor that are being rejected.
    rejections: Rc<Cell<usize>>,
}

impl AcceptContext {
    pub(crate) fn new(
        stages: Stages,
        accept_stages: AcceptStages,
        current: CurrentSite,
        open: Arc<ConnectionLimit>,
    ) -> Self {
        let entry = current.load().max_queue_delay.map(Admission::with_target);
        Self { stages, accept_stages, current, entry, open, rejections: Rc::default() }
    }
}

/// Rejects a connection with `status`. On a TLS listener the connection is closed without a response,
/// which would require a handshake that the server has no capacity for.
fn reject_at(
    kind: ListenerKind,
    stream: Stream,
    refusals: SharedStage<()>,
    rejections: &Rc<Cell<usize>>,
    most: usize,
    status: Status,
) {
    if !matches!(kind, ListenerKind::Tls) {
        reject(stream, refusals, rejections, most, status);
    }
}

/// Whether the rules about addresses admit the client. A client that is refused gets no response, so that a flood of them
/// costs little and does not displace responses to others.
fn is_admitted(stream: &Stream, site: &Site) -> bool {
    let Some(rules) = &site.address_rules else { return true };
    // The call fails if the client has disconnected.
    stream.peer_addr().is_ok_and(|address| rules.admits(address.ip()))
}

/// Accepts until the program shuts down or the listener closes. Each connection becomes an operation of the
/// control stage.
pub(crate) async fn accept(
    listener: Listener,
    mut control: ListenerControl<ListenerKind>,
    context: AcceptContext,
) {
    let AcceptContext {
        stages,
        accept_stages: AcceptStages { refusals, tls },
        current,
        entry,
        open,
        rejections,
    } = context;
    let mut site = current.load();
    loop {
        // Do not accept while the queue is full.
        stages.control.wait_for_capacity().await;
        let Some(stream) = control.next(&listener).await else { return };
        current.refresh(&mut site);
        // A connection that another processor has served was admitted there. Only plain ones move, and such a connection
        // stays plain if a reload has changed its listener.
        let (kind, most_open) = match stream.has_moved() {
            true => (ListenerKind::Plain, usize::MAX),
            false => (control.kind(), site.max_connections),
        };
        if !stream.has_moved() && !is_admitted(&stream, &site) {
            site.metrics.refused(Refused::Address);
            continue;
        }
        let most = site.max_rejections;
        let Some(permit) = open.try_acquire(most_open) else {
            site.metrics.refused(Refused::MaxConnections);
            reject_at(kind, stream, refusals, &rejections, most, Status::ServiceUnavailable);
            continue;
        };
        let Ok(peer) = Peer::of(&stream, &site, stages) else {
            site.metrics.refused(Refused::MaxConnectionsPerAddress);
            reject_at(kind, stream, refusals, &rejections, most, Status::TooManyRequests);
            continue;
        };
        let peer = Peer { permit: Some(permit), ..peer };
        let (current, entry) = (current.clone(), entry.clone());
        // If the operation limit is reached, the connection closes; a later one may fit.
        let _ = match kind {
            ListenerKind::Plain => {
                let connection = Connection::new(stream.into(), stages, current, entry, peer);
                stages.control.dispatch(move |_| connection.serve())
            }
            // A separate future, so that connections without TLS do not reserve its memory.
            ListenerKind::Tls => stages
                .control
                .dispatch(move |_| handshake(stream, tls, stages, current, entry, peer)),
            ListenerKind::RedirectHttps(port) => {
                let connection = Connection::new(stream.into(), stages, current, entry, peer);
                stages.control.dispatch(move |_| connection.redirecting_to_https(port).serve())
            }
        };
    }
}

/// Performs the TLS handshake, then serves the negotiated protocol.
async fn handshake(
    stream: Stream,
    tls: Option<TlsStages>,
    stages: Stages,
    current: CurrentSite,
    entry: Option<Admission>,
    peer: Peer,
) {
    let Some(tls) = tls else { return };
    let site = current.load();
    match tls.handshake(stream, IoTimeout::after(site.timeouts.handshake).until_shutdown()).await {
        Ok(stream) if stream.speaks(HTTP2) => {
            let transport = Rc::new(Wire::Tls(stream));
            http2::connection::dispatch(transport, stages, current, entry, peer, Vec::new());
        }
        Ok(stream) => {
            let transport = Wire::Tls(stream);
            Connection::new(transport, stages, current, entry, peer).serve().await;
        }
        // A browser displays this to a user who typed `http`.
        Err(Some(Failed { stream, plain: true })) => {
            site.metrics.handshake_failed();
            // Boxed, so that not every TLS connection reserves its memory.
            Box::pin(
                Connection::new(stream.into(), stages, current, entry, peer).reject_plain_http(),
            )
            .await;
        }
        Err(Some(_)) => site.metrics.handshake_failed(),
        Err(None) => (),
    }
}
