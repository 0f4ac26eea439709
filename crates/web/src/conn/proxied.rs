//! Connections of a load balancer that names the client in a PROXY header.

use std::net::IpAddr;
use std::time::Duration;

use phalanx::net::{IoTimeout, Stream};
use phalanx::time::now;
use phalanx_guard::proxy_protocol::{is_tls, missing, source};

use crate::conn::begin::{AcceptContext, Arrived};
use crate::metrics::Refused;
use crate::socket::network::is_time_limit;

/// Reads the header of a connection from a trusted load balancer, then serves the client that it names. A connection
/// without a valid header is closed without a response.
pub(super) async fn proxied(arrived: Arrived, context: AcceptContext) {
    let mut site = context.current.load();
    let named = read(&arrived.stream, site.timeouts.handshake).await;
    context.current.refresh(&mut site);
    match named {
        Ok((named, is_tls)) => {
            let (address, is_anonymous) = (named.unwrap_or(arrived.address), named.is_none());
            if !site.trusts(address) && !site.admits(address) {
                return site.metrics.refused(Refused::Address);
            }
            let arrived = Arrived { address, is_named: true, is_anonymous, is_tls, ..arrived };
            context.begin(arrived, &site);
        }
        Err(Bad::Header) => site.metrics.refused(Refused::ProxyProtocol),
        Err(Bad::Left) => (),
    }
}

/// Why no valid header was read.
enum Bad {
    /// It is malformed, or did not arrive in time.
    Header,
    /// The load balancer has closed the connection without sending anything, as some do to check whether the server is
    /// alive.
    Left,
}

/// Reads the header. Returns the client, if the header names one, and whether the client uses TLS.
async fn read(stream: &Stream, limit: Duration) -> Result<(Option<IpAddr>, bool), Bad> {
    let (mut header, began) = (Vec::new(), now());
    while let more @ 1.. = missing(&header).map_err(|_| Bad::Header)? {
        let length = header.len();
        header.resize(length + more, 0);
        let timeout = IoTimeout::after(limit.saturating_sub(now() - began)).until_shutdown();
        if let Err(error) = stream.read_exact(&mut header[length..], timeout).await {
            let is_first = length == 0 && !is_time_limit(&error);
            return Err(if is_first { Bad::Left } else { Bad::Header });
        }
    }
    let client = source(&header).map_err(|_| Bad::Header)?;
    Ok((client.map(|client| client.ip()), is_tls(&header)))
}
