//! Listen addresses in configurations.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

/// The form that [`address`] accepts, for messages.
pub const EXPECTED: &str = "an address and a port such as \"127.0.0.1:8080\", \"[::]:8080\" for all addresses of the \
                            machine, or a port alone, which is one of 127.0.0.1";

/// Parses a listen address: `ADDR:PORT`, or a bare port for 127.0.0.1. Host names are not resolved.
///
/// # Errors
/// A message with the expected form.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    // `parse` would also accept a sign.
    let port = || text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?;
    text.parse()
        .ok()
        .or_else(|| Some((Ipv4Addr::LOCALHOST, port()?).into()))
        .ok_or_else(|| format!("{text:?}: expected {EXPECTED}"))
}

/// A hint to append to the error of a refused port below 1024; empty for other errors.
pub fn port_hint(address: &SocketAddr, error: &io::Error) -> &'static str {
    let refused = error.kind() == io::ErrorKind::PermissionDenied;
    if refused && (1..1024).contains(&address.port()) {
        "; ports below 1024 require root or the capability CAP_NET_BIND_SERVICE (in a systemd unit \
         AmbientCapabilities=CAP_NET_BIND_SERVICE)"
    } else {
        ""
    }
}

/// Returns an error for each repeated address. Addresses with port 0 never collide.
pub fn duplicate_addresses(addresses: impl IntoIterator<Item = SocketAddr>) -> Vec<String> {
    let (mut seen, mut wrong) = (Vec::new(), Vec::new());
    for address in addresses {
        if address.port() != 0 && seen.contains(&address) {
            wrong.push(format!("{address} is listed twice"));
        }
        seen.push(address);
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_bare_ports() {
        let table = [
            ("8080", Some("127.0.0.1:8080")),
            ("0", Some("127.0.0.1:0")),
            ("65535", Some("127.0.0.1:65535")),
            ("[::]:80", Some("[::]:80")),
            ("0.0.0.0:80", Some("0.0.0.0:80")),
            ("65536", None),
            ("+80", None),
            ("-1", None),
            ("", None),
            (":8080", None),
            ("*:8080", None),
            ("localhost:8080", None),
            ("::1", None),
            ("127.0.0.1", None),
        ];
        for (text, wanted) in table {
            let found = address(text);
            assert_eq!(found.as_ref().ok().map(ToString::to_string).as_deref(), wanted, "{text}");
            if let Err(what) = found {
                assert!(what.starts_with(&format!("{text:?}: expected ")), "{what}");
                assert!(what.contains("[::]:8080") && what.contains("a port alone"), "{what}");
            }
        }
    }

    #[test]
    fn refused_low_ports_are_explained() {
        let hint = |address: &str, kind: io::ErrorKind| {
            port_hint(&address.parse().unwrap(), &kind.into()).contains("CAP_NET_BIND_SERVICE")
        };
        assert!(hint("0.0.0.0:80", io::ErrorKind::PermissionDenied));
        assert!(hint("[::]:1023", io::ErrorKind::PermissionDenied));
        assert!(!hint("0.0.0.0:1024", io::ErrorKind::PermissionDenied));
        assert!(!hint("0.0.0.0:0", io::ErrorKind::PermissionDenied));
        assert!(!hint("0.0.0.0:80", io::ErrorKind::AddrInUse));
    }

    #[test]
    fn each_repetition_is_reported() {
        let list = ["127.0.0.1:1", "127.0.0.1:0", "127.0.0.1:2", "127.0.0.1:0", "127.0.0.1:1"];
        let twice = duplicate_addresses(list.map(|address| address.parse().unwrap()));
        assert_eq!(twice, ["127.0.0.1:1 is listed twice"]);
    }
}
