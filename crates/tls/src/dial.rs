//! Connections to other servers by name: TCP, and TLS over it.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::time::Duration;

use phalanx::blocking::BlockingStage;
use phalanx::net::{IoTimeout, Stream};
use phalanx::time::now;

use crate::connector::Connector;
use crate::wire::Wire;

/// Connects to one of the addresses of a host, within `limit` and until shutdown; encrypted, if there is a connector.
/// The system resolves the name on `resolver`.
///
/// # Errors
/// A description of the last error.
pub async fn dial(
    resolver: &BlockingStage<()>,
    (host, port): (&str, u16),
    connector: Option<&Connector>,
    limit: Duration,
) -> Result<(Wire, SocketAddr), String> {
    let begun = now();
    let timeout = || IoTimeout::after(limit.saturating_sub(now() - begun)).until_shutdown();
    let mut last = format!("the host name {host} has no address");
    for address in resolve(resolver, host, port).await? {
        match Stream::connect(address, timeout()).await {
            Ok(stream) => {
                let wire = match connector {
                    None => Wire::Plain(stream),
                    Some(connector) => {
                        let made = connector.connect(stream, host, timeout()).await;
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
async fn resolve(
    resolver: &BlockingStage<()>,
    host: &str,
    port: u16,
) -> Result<Vec<SocketAddr>, String> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![(address, port).into()]);
    }
    let host = host.to_owned();
    let found = resolver.call(move |()| {
        let found: io::Result<Vec<_>> =
            (host.as_str(), port).to_socket_addrs().map(Iterator::collect);
        found.map_err(|error| format!("cannot resolve {host}: {error}"))
    });
    found.await.map_err(|error| error.to_string())?
}
