//! Information about a connection's client, for the access log and for limits per address. The server asks the kernel
//! for the address only when it needs the address.

use std::cell::OnceCell;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use phalanx::net::Stream;
use phalanx::time::now;
use phalanx_guard::{Addresses, ForwardedField, Open, TrustedProxies};
use phalanx_http::Request;
use phalanx_service::ConnectionPermit;

use crate::log::AccessRecorder;
use crate::site::{Place, Site};
use crate::stages::Stages;
use crate::upstream::NamedPools;

/// The client of a connection.
#[derive(Default)]
pub(crate) struct Peer {
    pub(crate) admission: Option<Box<Admission>>,
    /// Log records of its requests.
    pub(crate) recorder: Option<Box<AccessRecorder>>,
    /// The connections to other servers.
    pub(crate) pools: Option<Rc<NamedPools>>,
    /// The address of a trusted proxy, which names the client of each request.
    pub(crate) proxy: Option<Box<IpAddr>>,
    /// Whether a PROXY header has named the client. Such a connection stays on its processor, because another one would
    /// not know the client.
    pub(crate) is_named: bool,
    /// The announcement of HTTP/3 at the address that the client has used.
    pub(crate) alt_svc: Place,
}

/// Counts a connection towards the limit of the server and the limit of its address. It moves to another processor with
/// the connection, so that the limits always hold.
pub(crate) struct Admission {
    /// None without limits per address.
    open: Option<Open>,
    /// The address of the client, once it was needed to forward a request. Here, because it moves with the connection.
    ip_address: OnceCell<Option<IpAddr>>,
    #[expect(dead_code, reason = "it counts until it is dropped")]
    permit: ConnectionPermit,
}

impl Admission {
    /// The address of the client of `stream`. Asks the kernel only the first time.
    pub(crate) fn ip_address(&self, stream: &Stream) -> Option<IpAddr> {
        *self.ip_address.get_or_init(|| ip_address(stream))
    }

    /// Counts a request towards the limit of the address, if the connection is counted in the same table.
    ///
    /// # Errors
    /// If there are too many: the time until the next one is admitted.
    pub(crate) fn count_request(&self, limits: &Arc<Addresses>) -> Result<(), Duration> {
        let open = self.open.as_ref().filter(|open| open.is_in(limits));
        open.map_or(Ok(()), |open| open.request(now()))
    }

    /// The address under which requests are counted if the connection was opened before a reload changed the limits.
    /// `own` is the client's address.
    pub(crate) fn recounted(
        &self,
        site: &Site,
        own: impl FnOnce() -> Option<IpAddr>,
    ) -> Option<IpAddr> {
        let limits = site.addresses.as_ref()?;
        let is_counted = self.open.as_ref().is_some_and(|open| open.is_in(limits));
        if is_counted { None } else { own().filter(|address| !site.trusts(*address)) }
    }
}

/// The client's address has reached its connection limit.
pub(crate) struct TooMany;

/// The address of a connection's client, or of the proxy that has opened it; `None` if it has disconnected or no
/// address is needed. Clients of Unix sockets have a loopback address.
pub(crate) fn address(stream: &Stream, site: &Site, stages: Stages) -> Option<IpAddr> {
    if !site.needs_addresses() && stages.log.is_none() {
        return Some(Ipv4Addr::UNSPECIFIED.into());
    }
    own_address(stream)
}

/// Like [`address`], even if no address is needed.
pub(crate) fn own_address(stream: &Stream) -> Option<IpAddr> {
    match stream.peer_addr() {
        Ok(address) => Some(address.ip()),
        Err(error) if error.kind() == io::ErrorKind::Unsupported => {
            Some(Ipv4Addr::LOCALHOST.into())
        }
        Err(_) => None,
    }
}

/// The address of a connection's client; `None` if it has disconnected, and for a Unix socket.
pub(crate) fn ip_address(stream: &Stream) -> Option<IpAddr> {
    stream.peer_addr().ok().map(|address| address.ip())
}

/// The client that the trusted `proxy` names in a request; `None` if the connection is the client's own.
pub(crate) fn named(proxy: Option<&IpAddr>, request: &Request<'_>, site: &Site) -> Option<IpAddr> {
    let (proxy, proxies) = (proxy?, site.proxies.as_ref()?);
    Some(proxies.client(*proxy, request.values(proxies.field.name())))
}

/// The statements of trusted proxies and load balancers about a request, which are forwarded to upstream servers.
#[derive(Clone, Copy)]
pub(crate) struct Claims {
    /// The client's address.
    pub(crate) address: Option<IpAddr>,
    /// Whether the client uses TLS; `None` if unknown.
    pub(crate) is_tls: Option<bool>,
    /// The kind of its fields, if the request comes from a trusted proxy that names the requested host.
    pub(crate) field: Option<ForwardedField>,
}

impl Claims {
    /// The claims about a request of the trusted `proxy`, if there is one, which has `named` its client.
    pub(crate) fn of(
        (proxy, named): (Option<&IpAddr>, Option<IpAddr>),
        pools: Option<&NamedPools>,
        request: &Request<'_>,
        site: &Site,
    ) -> Self {
        let proxies = proxy.and(site.proxies.as_ref());
        let own =
            |proxies: &TrustedProxies| proxies.is_tls(request.values(proxies.field.scheme_name()));
        let of_connection = pools.filter(|pools| pools.is_tls).map(|_| true);
        Self {
            address: named.or(pools.and_then(|pools| pools.named)),
            is_tls: proxies.and_then(own).or(of_connection),
            field: proxies.filter(|_| site.proxies_name_host).map(|proxies| proxies.field),
        }
    }
}

impl Peer {
    /// Admits a new connection from `address`. Connections of a trusted proxy are not limited, because each carries
    /// requests of many clients.
    pub(crate) fn admit(
        address: IpAddr,
        permit: ConnectionPermit,
        site: &Site,
        stages: Stages,
    ) -> Result<Self, TooMany> {
        let open = match site.addresses.as_ref().filter(|_| !site.trusts(address)) {
            Some(addresses) => {
                Some(addresses.open(site.address_key(address), now()).ok_or(TooMany)?)
            }
            None => None,
        };
        site.metrics.accepted();
        let admission = Box::new(Admission { open, ip_address: OnceCell::new(), permit });
        Ok(Self::admitted(address, admission, site, stages))
    }

    /// The client of a connection that was admitted before.
    pub(crate) fn admitted(
        address: IpAddr,
        admission: Box<Admission>,
        site: &Site,
        stages: Stages,
    ) -> Self {
        Self {
            admission: Some(admission),
            recorder: stages.log.map(|log| Box::new(AccessRecorder::new(log, address))),
            proxy: site.trusts(address).then(|| Box::new(address)),
            ..Self::default()
        }
    }
}
