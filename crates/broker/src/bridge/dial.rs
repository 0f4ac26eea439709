//! Connections to the remote broker: TCP, and TLS over it.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::time::Duration;

use phalanx::net::{IoTimeout, Stream};
use phalanx::time::now;
use phalanx_tls::{Connector, Wire};

use crate::config::Remote;
use crate::context::Context;

/// Connects to one of the addresses of `remote`, within `limit`.
///
/// # Errors
/// A description of the last error.
pub(super) async fn dial(
    context: &Context,
    remote: &Remote,
    connector: Option<&Connector>,
    limit: Duration,
) -> Result<(Wire, SocketAddr), String> {
    let begun = now();
    let timeout = || IoTimeout::after(limit.saturating_sub(now() - begun)).until_shutdown();
    let mut last = format!("the host name {} has no address", remote.host);
    for address in resolve(context, remote).await? {
        match Stream::connect(address, timeout()).await {
            Ok(stream) => {
                let wire = match connector.filter(|_| remote.is_tls) {
                    None => Wire::Plain(stream),
                    Some(connector) => {
                        let made = connector.connect(stream, &remote.host, timeout()).await;
                        Wire::Tls(made.map_err(|error| format!("TLS: {error}"))?)
                    }
                };
                return Ok((wire, address));
            }
            Err(error) => last = error.to_string(),
        }
    }
    Err(last)
}

/// The addresses of a host, from the system's resolver.
async fn resolve(context: &Context, remote: &Remote) -> Result<Vec<SocketAddr>, String> {
    let Remote { host, port, .. } = remote.clone();
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![(address, port).into()]);
    }
    let found = context.bridges.blocking.call(move |()| {
        let found: io::Result<Vec<_>> =
            (host.as_str(), port).to_socket_addrs().map(Iterator::collect);
        found.map_err(|error| format!("cannot resolve {host}: {error}"))
    });
    found.await.map_err(|error| error.to_string())?
}
