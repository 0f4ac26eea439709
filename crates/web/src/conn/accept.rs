//! Accept loops.

use phalanx::net::Listener;
use phalanx_http::Status;
use phalanx_service::ListenerControl;

use crate::config::Arrival;
use crate::conn::begin::{AcceptContext, Arrived};
use crate::conn::proxied::proxied;
use crate::metrics::Refused;
use crate::socket::peer;

/// Accepts until the program shuts down or the listener closes. Each connection becomes an operation of the
/// control stage.
pub(crate) async fn accept(
    listener: Listener,
    mut control: ListenerControl<Arrival>,
    context: AcceptContext,
) {
    loop {
        // Do not accept while the queue is full.
        context.stages.control.wait_for_capacity().await;
        let Some(stream) = control.next(&listener).await else { return };
        // Loaded after the wait, so that a version that a reload has replaced is freed even if no client connects.
        let site = context.current.load();
        if stream.has_moved() {
            context.resume(stream, &site);
            continue;
        }
        let Arrival { kind, proxied: is_proxied } = control.kind();
        let Some(address) = peer::address(&stream, &site, context.stages) else { continue };
        let is_trusted = site.trusts(address);
        // Connections of a trusted proxy are accepted here; the clients that it names are admitted or refused later,
        // one by one. A refused client gets no response, so that a flood of them costs little and does not displace
        // responses to other clients.
        let refusal = match is_proxied {
            true => (!is_trusted).then_some(Refused::ProxyProtocol),
            false => (!is_trusted && !site.admits(address)).then_some(Refused::Address),
        };
        if let Some(refusal) = refusal {
            site.metrics.refused(refusal);
            continue;
        }
        let Some(permit) = context.open.try_acquire(site.max_connections) else {
            site.metrics.refused(Refused::MaxConnections);
            context.reject(kind, stream, &site, Status::ServiceUnavailable);
            continue;
        };
        let (is_named, is_anonymous, is_tls) = (false, false, false);
        let arrived = Arrived { stream, kind, address, permit, is_named, is_anonymous, is_tls };
        match is_proxied {
            true => {
                let (control, context) = (context.stages.control, context.clone());
                // At the operation limit, the connection closes.
                if control.dispatch(move |_| proxied(arrived, context)).is_err() {
                    site.metrics.refused(Refused::MaxOperations);
                }
            }
            false => context.begin(arrived, &site),
        }
    }
}
