//! Connections to other servers by name: TCP, and TLS over it.

use std::io;
use std::net::SocketAddr;

use phalanx::net::{IoTimeout, Resolver, Stream};
use phalanx::time::now;

use crate::outgoing::connector::Connector;
use crate::stream::wire::Wire;

/// Connects to one of the addresses of a host, which `resolver` finds; with TLS, if there is a connector. The limit
/// applies to all steps together: each attempt, including its handshake, gets an equal part of the remaining time.
///
/// # Errors
/// The error at the last address.
pub async fn dial(
    resolver: &Resolver,
    (host, port): (&str, u16),
    connector: Option<&Connector>,
    limit: IoTimeout,
) -> io::Result<(Wire, SocketAddr)> {
    let start = now();
    let addresses = resolver.resolve(host, port, limit).await?;
    let remaining = limit.remaining(now().saturating_sub(start));
    // Boxed, so that the callers' futures do not always reserve the memory of a handshake.
    Box::pin(dial_any(&addresses, host, connector, remaining)).await
}

/// Like [`dial`], with the addresses of the host. If a handshake fails, the next address is tried, because another
/// program may listen on this one.
async fn dial_any(
    addresses: &[SocketAddr],
    host: &str,
    connector: Option<&Connector>,
    limit: IoTimeout,
) -> io::Result<(Wire, SocketAddr)> {
    let start = now();
    let mut last = io::Error::other(format!("the host name {host} has no address"));
    for (n, address) in addresses.iter().copied().enumerate() {
        let remaining = limit.remaining(now().saturating_sub(start));
        match attempt(address, host, connector, part(remaining, addresses.len() - n)).await {
            Ok(wire) => return Ok((wire, address)),
            Err(error) => last = error,
        }
    }
    Err(last)
}

async fn attempt(
    address: SocketAddr,
    host: &str,
    connector: Option<&Connector>,
    limit: IoTimeout,
) -> io::Result<Wire> {
    let start = now();
    let stream = Stream::connect(address, limit).await?;
    let Some(connector) = connector else { return Ok(Wire::Plain(stream)) };
    let remaining = limit.remaining(now().saturating_sub(start));
    let connected = connector.connect(stream, host, remaining).await;
    connected.map(Wire::Tls).map_err(|error| io::Error::new(error.kind(), format!("TLS: {error}")))
}

/// One of `count` equal parts of a limit.
fn part(limit: IoTimeout, count: usize) -> IoTimeout {
    let total = limit.duration();
    let part = total / u32::try_from(count).unwrap_or(u32::MAX).max(1);
    limit.remaining(total.saturating_sub(part))
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{Ipv4Addr, TcpListener};
    use std::time::Duration;

    use phalanx::Runtime;
    use rcgen::generate_simple_self_signed;

    use super::*;

    #[test]
    fn a_failed_handshake_leads_to_the_next_address() {
        let listeners = [0; 2].map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap());
        let addresses = listeners.each_ref().map(|listener| listener.local_addr().unwrap());
        let authority = tempfile::NamedTempFile::new().unwrap();
        let pair = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        std::fs::write(authority.path(), pair.cert.pem()).unwrap();
        let connector = Connector::load(Some(authority.path()), None, &[]).unwrap();
        // Neither server uses TLS: both close the first connection, and report whether the client has sent anything.
        let servers = listeners.map(|listener| {
            std::thread::spawn(move || {
                let (mut client, _) = listener.accept().unwrap();
                client.read(&mut [0]).unwrap()
            })
        });
        let main = move |()| async move {
            let limit = IoTimeout::after(Duration::from_secs(60));
            let dialled = dial_any(&addresses, "localhost", Some(&connector), limit);
            let connected = Box::pin(dialled).await;
            connected.err().map(|error| error.to_string())
        };
        let runtime = Runtime::new().processors(1).signals(false);
        let error = runtime.block_on(|_| (), main).unwrap();
        assert!(error.as_ref().is_some_and(|error| error.starts_with("TLS: ")), "{error:?}");
        // A server that has not got a connection still waits for one; connect without sending anything.
        for address in addresses {
            drop(std::net::TcpStream::connect(address));
        }
        assert_eq!(servers.map(|server| server.join().unwrap()), [1, 1]);
    }

    #[test]
    fn parts_of_a_limit() {
        let six = IoTimeout::after(Duration::from_secs(6)).until_shutdown();
        let two = IoTimeout::after(Duration::from_secs(2)).until_shutdown();
        assert_eq!((part(six, 3), part(six, 1), part(two, 0)), (two, six, two));
        assert_eq!(part(IoTimeout::NONE, 3), IoTimeout::NONE);
    }
}
