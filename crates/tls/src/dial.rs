//! Connections to other servers by name: TCP, and TLS over it.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use phalanx::blocking::BlockingStage;
use phalanx::net::{IoTimeout, Stream};
use phalanx::time::{now, timeout};

use crate::connector::Connector;
use crate::wire::Wire;

/// Connects to one of the addresses of a host; encrypted, if there is a connector. The system resolves the name on
/// `resolver`. The limit is that of all steps together: each attempt to connect to an address gets an equal part of the
/// rest.
///
/// # Errors
/// A description of the last error.
pub async fn dial(
    resolver: &BlockingStage<()>,
    (host, port): (&str, u16),
    connector: Option<&Connector>,
    limit: IoTimeout,
) -> Result<(Wire, SocketAddr), String> {
    let begun = now();
    let left = || limit.remaining(now().saturating_sub(begun));
    let found = timeout(limit.duration(), resolve(resolver, host, port)).await;
    let found = found.map_err(|_| format!("cannot resolve {host} in time"))??;
    let mut last = format!("the host name {host} has no address");
    for (n, address) in found.iter().copied().enumerate() {
        match Stream::connect(address, part(left(), found.len() - n)).await {
            Ok(stream) => {
                let wire = match connector {
                    None => Wire::Plain(stream),
                    Some(connector) => {
                        let made = connector.connect(stream, host, left()).await;
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

/// One of `count` equal parts of a limit.
fn part(limit: IoTimeout, count: usize) -> IoTimeout {
    let whole = limit.duration();
    let part = whole / u32::try_from(count).unwrap_or(u32::MAX).max(1);
    limit.remaining(whole.saturating_sub(part))
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn parts_of_a_limit() {
        let six = IoTimeout::after(Duration::from_secs(6)).until_shutdown();
        let two = IoTimeout::after(Duration::from_secs(2)).until_shutdown();
        assert_eq!((part(six, 3), part(six, 1), part(two, 0)), (two, six, two));
        assert_eq!(part(IoTimeout::NONE, 3), IoTimeout::NONE);
    }
}
