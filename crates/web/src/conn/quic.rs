//! New QUIC connections, which speak HTTP/3.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use phalanx_quic::{Endpoint, Incoming};

use crate::conn::begin::AcceptContext;
use crate::http3;
use crate::metrics::Refused;
use crate::site::Site;
use crate::socket::peer::Peer;

/// Serves the connections of an endpoint until the program shuts down. While `is_open` is false, new ones are refused.
/// `local` is the same address over TCP.
pub(crate) async fn serve_quic(
    endpoint: Endpoint,
    context: AcceptContext,
    (local, is_open): (SocketAddr, Arc<AtomicBool>),
) {
    let accept = |incoming: Incoming<'_>| {
        if is_open.load(Ordering::Relaxed) {
            // Loaded after the wait, so that a version that a reload has replaced is freed even if no client connects.
            context.accept_quic(incoming, local, &context.current.load());
        }
    };
    endpoint.run(accept).await;
}

impl AcceptContext {
    /// Accepts a connection if the limits permit it. Dropping `incoming` refuses the connection.
    fn accept_quic(&self, incoming: Incoming<'_>, local: SocketAddr, site: &Arc<Site>) {
        let address = incoming.remote_address().ip().to_canonical();
        if !site.trusts(address) && !site.admits(address) {
            return site.metrics.refused(Refused::Address);
        }
        // Without a proof of the address, a client that forges it could use up the limit of another client.
        if site.limits(address) && !incoming.is_validated() {
            return incoming.retry();
        }
        let Some(permit) = self.open.try_acquire(site.max_connections) else {
            return site.metrics.refused(Refused::MaxConnections);
        };
        let Ok(peer) = Peer::admit(address, permit, site, self.stages) else {
            return site.metrics.refused(Refused::MaxConnectionsPerAddress);
        };
        if let Some(tls) = self.accept_stages.tls {
            // Loading a changed certificate may block, so this handshake still uses the old one, and later ones use the
            // new one.
            tls.check_if_due();
        }
        // A reload may have changed the limit.
        let Some(connection) = incoming.accept(site.timeouts.quic_idle()) else { return };
        let alt_svc = site.alt_svc().place(|| Some(local));
        let peer = Peer { pools: Some(self.pools.clone()), alt_svc, ..peer };
        http3::connection::dispatch(connection, self.stages, self.current.clone(), peer);
    }
}
