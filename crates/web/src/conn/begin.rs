//! The first steps of a connection whose client is known: limits, the TLS handshake, and the choice of the protocol.

use std::cell::Cell;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use phalanx::CallError;
use phalanx::net::{IoTimeout, Stream};
use phalanx::shutdown::is_draining;
use phalanx_http::Status;
use phalanx_service::{ConnectionLimit, ConnectionPermit};
use phalanx_tls::{ACME_TLS, Failed, HandshakeError, Reason, TlsStages, Wire};

use crate::config::ListenerKind;
use crate::conn::reject::reject;
use crate::http1::Connection;
use crate::http2;
use crate::metrics::Refused;
use crate::site::{CurrentSite, Place, Site};
use crate::socket::peer::{self, Peer};
use crate::stages::{AcceptStages, HTTP2, Stages};
use crate::upstream::NamedPools;

/// State shared by the listeners of one processor.
#[derive(Clone)]
pub(crate) struct AcceptContext {
    pub(super) stages: Stages,
    pub(super) accept_stages: AcceptStages,
    pub(super) current: CurrentSite,
    /// Open connections of all processors.
    pub(super) open: Arc<ConnectionLimit>,
    /// Connections of this processor that are being rejected.
    rejections: Rc<Cell<usize>>,
    /// Connections of this processor to other servers.
    pub(super) pools: Rc<NamedPools>,
}

/// A connection before its first byte.
pub(super) struct Arrived {
    pub(super) stream: Stream,
    pub(super) kind: ListenerKind,
    /// The address of the client, or of the load balancer until its PROXY header is read.
    pub(super) address: IpAddr,
    pub(super) permit: ConnectionPermit,
    /// Whether the connection began with a PROXY header.
    pub(super) is_named: bool,
    /// Whether the PROXY header names no client. Then the client is unknown and not trusted to name others.
    pub(super) is_anonymous: bool,
    /// Whether the header says that the client has used TLS to reach the load balancer.
    pub(super) is_tls: bool,
}

impl AcceptContext {
    pub(crate) fn new(
        stages: Stages,
        accept_stages: AcceptStages,
        current: CurrentSite,
        open: Arc<ConnectionLimit>,
    ) -> Self {
        let pools = NamedPools::new(accept_stages.upstream);
        Self { stages, accept_stages, current, open, rejections: Rc::default(), pools }
    }

    /// Rejects a connection with `status`. On a TLS listener the connection is closed without a response,
    /// which would require a handshake that the server has no capacity for.
    pub(super) fn reject(&self, kind: ListenerKind, stream: Stream, site: &Site, status: Status) {
        if kind != ListenerKind::Tls {
            let (refusals, most) = (self.accept_stages.refusals, site.max_rejections);
            reject(stream, refusals, &self.rejections, most, status);
        }
    }

    /// Starts the operation that serves a connection moved from another processor, which has admitted it and completed
    /// its handshake. A reload of its listener has no effect on it.
    pub(super) fn resume(&self, stream: Stream, site: &Site) {
        let stages = self.stages;
        let Some(address) = peer::address(&stream, site, stages) else { return };
        // Resolved for every connection, because it may use TLS.
        let alt_svc = site.alt_svc().place(|| stream.local_addr().ok());
        let mut wire = Wire::accepted(stream);
        let admission = wire.take_state().expect("connections move with their admission");
        let peer = Peer::admitted(address, admission, site, stages);
        let peer = Peer { pools: Some(self.pools.clone()), alt_svc, ..peer };
        let connection = Connection::new(wire, stages, self.current.clone(), peer).resumed();
        // If the operation limit is reached, the connection closes; a later one may fit.
        if stages.control.dispatch(move |_| connection.serve()).is_err() {
            site.metrics.refused(Refused::MaxOperations);
        }
    }

    /// Starts the operation that serves a new connection.
    pub(super) fn begin(&self, arrived: Arrived, site: &Site) {
        let Arrived { stream, kind, address, permit, is_named, is_anonymous, is_tls } = arrived;
        let stages = self.stages;
        let Ok(peer) = Peer::admit(address, permit, site, stages) else {
            site.metrics.refused(Refused::MaxConnectionsPerAddress);
            return self.reject(kind, stream, site, Status::TooManyRequests);
        };
        let pools = match is_named {
            true => self.pools.of(address, is_tls),
            false => self.pools.clone(),
        };
        let proxy = peer.proxy.filter(|_| !is_anonymous);
        // Without TLS, HTTP/3 is not announced.
        let alt_svc = match kind {
            // Behind a load balancer, the local address is not the one that the client uses.
            ListenerKind::Tls => {
                site.alt_svc().place(|| stream.local_addr().ok().filter(|_| !is_named))
            }
            _ => Place::default(),
        };
        let peer = Peer { is_named, pools: Some(pools), proxy, alt_svc, ..peer };
        let current = self.current.clone();
        // If the operation limit is reached, the connection closes; a later one may fit.
        let begun = match kind {
            ListenerKind::Plain => {
                let connection = Connection::new(stream.into(), stages, current, peer);
                stages.control.dispatch(move |_| connection.serve())
            }
            // A separate future, so that connections without TLS do not reserve its memory.
            ListenerKind::Tls => {
                let tls = self.accept_stages.tls;
                stages.control.dispatch(move |_| handshake(stream, tls, stages, current, peer))
            }
            ListenerKind::RedirectHttps(port) => {
                let connection = Connection::new(stream.into(), stages, current, peer);
                stages.control.dispatch(move |_| connection.redirecting_to_https(port).serve())
            }
        };
        if begun.is_err() {
            site.metrics.refused(Refused::MaxOperations);
        }
    }
}

/// Performs the TLS handshake, then serves the negotiated protocol.
async fn handshake(
    stream: Stream,
    tls: Option<TlsStages>,
    stages: Stages,
    current: CurrentSite,
    peer: Peer,
) {
    let Some(tls) = tls else { return };
    let site = current.load();
    match tls.handshake(stream, IoTimeout::after(site.timeouts.handshake).until_shutdown()).await {
        Ok(stream) if stream.speaks(HTTP2) => {
            let transport = Rc::new(Wire::Tls(stream));
            http2::connection::dispatch(transport, stages, current, peer, Vec::new());
        }
        // The handshake was the check of a challenge by an ACME authority; there is nothing to serve.
        Ok(stream) if stream.speaks(ACME_TLS) => (),
        Ok(stream) => {
            let transport = Wire::Tls(stream);
            Connection::new(transport, stages, current, peer).serve().await;
        }
        // A browser shows this response to a user who typed `http://`.
        Err(HandshakeError::Failed(Failed { stream, reason: Reason::PlainHttp, .. })) => {
            site.metrics.handshake_failed();
            // Boxed, so that not every TLS connection reserves its memory.
            Box::pin(Connection::new(stream.into(), stages, current, peer).reject_plain_http())
                .await;
        }
        Err(HandshakeError::Failed(Failed { reason: Reason::NoBytes, .. })) => (),
        // A shutdown ends handshakes; these are not failures.
        Err(HandshakeError::Failed(_)) if is_draining() => (),
        Err(HandshakeError::Failed(_)) => site.metrics.handshake_failed(),
        Err(HandshakeError::Call(error)) => {
            if let Some(why) = refused(&error) {
                site.metrics.refused(why);
            }
        }
    }
}

/// The limit that has rejected a call; `None` if the program is shutting down.
fn refused(error: &CallError) -> Option<Refused> {
    match error {
        CallError::Full { stage: Some(_), .. } => Some(Refused::MaxHandshakes),
        CallError::Full { stage: None, .. } => Some(Refused::MaxOperations),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_limits_refuse_handshakes() {
        let full = |stage| refused(&CallError::Full { stage, bound: 1 });
        assert!(matches!(full(Some("handshakes")), Some(Refused::MaxHandshakes)));
        assert!(matches!(full(None), Some(Refused::MaxOperations)));
        assert!(refused(&CallError::Cancelled).is_none());
    }
}
