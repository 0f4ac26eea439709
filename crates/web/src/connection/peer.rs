//! What is known of a connection's other end, where anything wants to know it: the log, and the limits
//! on what one address may do. Where nothing does, nobody asks the kernel for the address.

use std::net::{IpAddr, Ipv4Addr};

use phalanx::net::Stream;
use phalanx::time::now;
use phalanx_guard::Open;

use crate::connection::gauge_guard::GaugeGuard;
use crate::log::AccessRecorder;
use crate::site::Site;
use crate::stages::Stages;

/// A client, as far as it is known.
#[derive(Default)]
pub(crate) struct Peer {
    /// Its address's connections, of which this is one.
    pub(crate) open: Option<Open>,
    /// One of the processor's connections.
    #[expect(dead_code, reason = "it counts until it is dropped")]
    pub(super) gauge: Option<GaugeGuard>,
    /// What is written down of its requests.
    pub(crate) recorder: Option<AccessRecorder>,
}

/// The client's address has as many connections as it may.
pub(crate) struct TooMany;

impl Peer {
    /// Who has connected.
    pub(crate) fn of(stream: &Stream, site: &Site, stages: Stages) -> Result<Self, TooMany> {
        if site.addresses.is_none() && stages.log.is_none() {
            return Ok(Self::default());
        }
        // Refused where it has gone already: then it does not matter whose it was.
        let address =
            stream.peer_addr().map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |address| address.ip());
        let open = match &site.addresses {
            Some(addresses) => {
                Some(addresses.open(site.address_key(address), now()).ok_or(TooMany)?)
            }
            None => None,
        };
        Ok(Self {
            open,
            gauge: None,
            recorder: stages.log.map(|log| AccessRecorder::new(log, address)),
        })
    }
}
