//! Information about a connection's client, for the access log and for limits per address. Without either,
//! the address is not requested from the kernel.

use std::net::{IpAddr, Ipv4Addr};

use phalanx::net::Stream;
use phalanx::time::now;
use phalanx_guard::Open;
use phalanx_service::ConnectionPermit;

use crate::log::AccessRecorder;
use crate::site::Site;
use crate::stages::Stages;

/// The client of a connection.
#[derive(Default)]
pub(crate) struct Peer {
    /// The client's slot among the connections of its address.
    pub(crate) open: Option<Open>,
    /// Counts this connection.
    #[expect(dead_code, reason = "it counts until it is dropped")]
    pub(crate) permit: Option<ConnectionPermit>,
    /// Log records of its requests.
    pub(crate) recorder: Option<AccessRecorder>,
}

/// The client's address has reached its connection limit.
pub(crate) struct TooMany;

impl Peer {
    /// Registers a new connection, or one that another processor has admitted and served.
    pub(crate) fn of(stream: &Stream, site: &Site, stages: Stages) -> Result<Self, TooMany> {
        if site.addresses.is_none() && stages.log.is_none() {
            site.metrics.accepted();
            return Ok(Self::default());
        }
        // The call fails if the client has disconnected; then the address does not matter.
        let address =
            stream.peer_addr().map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |address| address.ip());
        let open = match &site.addresses {
            Some(addresses) => {
                let key = site.address_key(address);
                Some(match stream.has_moved() {
                    true => addresses.open_admitted(key, now()),
                    false => addresses.open(key, now()).ok_or(TooMany)?,
                })
            }
            None => None,
        };
        site.metrics.accepted();
        Ok(Self {
            open,
            permit: None,
            recorder: stages.log.map(|log| AccessRecorder::new(log, address)),
        })
    }
}
