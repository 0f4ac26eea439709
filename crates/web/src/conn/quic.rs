//! New QUIC connections, which speak HTTP/3.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use phalanx_quic::{Endpoint, Incoming};

use crate::conn::begin::AcceptContext;
use crate::http3;
use crate::metrics::Refused;
use crate::site::Site;
use crate::socket::peer::Peer;

/// Serves the connections of an endpoint until the program shuts down. While `is_open` is false, new ones are refused.
pub(crate) async fn serve_quic(
    endpoint: Endpoint,
    context: AcceptContext,
    is_open: Arc<AtomicBool>,
) {
    let site = RefCell::new(context.current.load());
    let accept = |incoming: Incoming<'_>| {
        let mut site = site.borrow_mut();
        context.current.refresh(&mut site);
        if is_open.load(Ordering::Relaxed) {
            context.accept_quic(incoming, &site);
        }
    };
    endpoint.run(accept).await;
}

impl AcceptContext {
    /// Begins a connection within the limits. An incoming connection that is dropped is refused.
    fn accept_quic(&self, incoming: Incoming<'_>, site: &Arc<Site>) {
        let address = incoming.remote_address().ip().to_canonical();
        if !site.trusts(address) && !site.admits(address) {
            return site.metrics.refused(Refused::Address);
        }
        let Some(permit) = self.open.try_acquire(site.max_connections) else {
            return site.metrics.refused(Refused::MaxConnections);
        };
        let Ok(peer) = Peer::of(address, false, site, self.stages) else {
            return site.metrics.refused(Refused::MaxConnectionsPerAddress);
        };
        if let Some(tls) = self.accept_stages.tls {
            // This handshake does not wait for a changed certificate; later ones get it.
            tls.check_if_due();
        }
        let Some(connection) = incoming.accept() else { return };
        let (permit, pools) = (Some(permit), Some(self.pools.clone()));
        let peer = Peer { permit, pools, ..peer };
        http3::connection::dispatch(connection, self.stages, self.current.clone(), peer);
    }
}
