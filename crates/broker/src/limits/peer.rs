//! Counts connections for the limits per address.

use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use phalanx::net::Stream;
use phalanx::time::now;
use phalanx_guard::{AddressKey, Addresses, Bounds, Open, client};
use phalanx_mqtt::Reason;
use phalanx_service::ConnectionPermit;

use crate::config::Limits;
use crate::events::Origin;
use crate::listen::metrics::ListenerMetrics;

/// Time for a client to read why its connection is closed.
pub(crate) const LINGER_TIME: Duration = Duration::from_secs(2);

/// The number and the rate of connections from each address. `None` without such limits.
#[derive(Clone)]
pub(crate) struct Guard(Option<(Arc<Addresses>, RandomState)>);

/// A connection, counted until it is dropped.
pub(crate) struct Peer {
    /// `None` for the connection of a bridge.
    _permit: Option<ConnectionPermit>,
    /// `None` unless the listen address has its own settings.
    _listener_permit: Option<ConnectionPermit>,
    /// Boxed, because it exists only with limits per address.
    _address_permit: Option<Box<Open>>,
    pub(crate) origin: Origin,
    pub(crate) listener: Arc<ListenerMetrics>,
    /// The reason code if the connection is to be rejected.
    pub(crate) refused: Option<Reason>,
    /// Time of acceptance.
    since: Duration,
}

impl Peer {
    /// A connection beyond the limit, which will be rejected.
    pub(crate) fn new_rejected(
        stream: &Stream,
        listener: &Arc<ListenerMetrics>,
        permit: ConnectionPermit,
    ) -> Self {
        let refused = Some(Reason::SERVER_BUSY);
        Self { refused, ..Self::new(stream, listener, permit) }
    }

    /// Sets the permit of the listen address, which the connection holds until it is dropped.
    pub(crate) fn set_listener_permit(&mut self, permit: Option<ConnectionPermit>) {
        self._listener_permit = permit;
    }

    /// The connection of a bridge to a remote broker.
    pub(crate) fn of_bridge(origin: Origin, metrics: ListenerMetrics) -> Self {
        let listener = Arc::new(metrics);
        let (_permit, _listener_permit, _address_permit) = (None, None, None);
        Self {
            _permit,
            _listener_permit,
            _address_permit,
            origin,
            listener,
            refused: None,
            since: now(),
        }
    }

    fn new(stream: &Stream, listener: &Arc<ListenerMetrics>, permit: ConnectionPermit) -> Self {
        // Costs a system call.
        let origin = Origin { address: stream.peer_addr().ok(), listen: listener.listen };
        let listener = listener.clone();
        let (_permit, _listener_permit, _address_permit) = (Some(permit), None, None);
        Self {
            _permit,
            _listener_permit,
            _address_permit,
            origin,
            listener,
            refused: None,
            since: now(),
        }
    }

    /// The client's address, if known.
    pub(crate) fn ip(&self) -> Option<IpAddr> {
        self.origin.address.map(|address| address.ip())
    }

    /// Time left for CONNECT to arrive, which has to be within `limit` of acceptance.
    pub(crate) fn time_left(&self, limit: Duration) -> Duration {
        // A rejected connection holds a permit, so it gets little time.
        let limit = if self.refused.is_some() { limit.min(LINGER_TIME) } else { limit };
        limit.saturating_sub(now() - self.since)
    }
}

impl Guard {
    pub(crate) fn new(limits: &Limits) -> Self {
        let per_second = limits.connection_rate.map(f64::from);
        // The burst is the number of connections of one second.
        let burst = limits.connection_rate.unwrap_or(1).saturating_sub(1);
        let bounds = Bounds { connections: limits.per_address, per_second, burst };
        Self(Addresses::new(bounds).map(|addresses| (addresses, RandomState::new())))
    }

    pub(crate) fn peer(
        &self,
        stream: &Stream,
        listener: &Arc<ListenerMetrics>,
        permit: ConnectionPermit,
    ) -> Peer {
        let peer = Peer::new(stream, listener, permit);
        let Some((addresses, hashes)) = &self.0 else { return peer };
        // If the client has already disconnected, the address does not matter.
        let address =
            peer.origin.address.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |address| address.ip());
        let key = AddressKey::new(hashes.hash_one(client(address)));
        let open = addresses.open(key, now());
        let refused = match &open {
            None => Some(Reason::QUOTA_EXCEEDED),
            Some(open) => open.request(now()).is_err().then_some(Reason::CONNECTION_RATE_EXCEEDED),
        };
        Peer { _address_permit: open.map(Box::new), refused, ..peer }
    }
}
