//! Listen addresses in configurations: URLs such as `https://[::]:443`.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::str::FromStr;

use phalanx_config::{Given, Value, Written};

use crate::address::ListenAddress;

/// The protocols of a server, by their URL schemes.
pub trait Scheme: Copy + fmt::Debug + Eq + Send + Sync + 'static {
    /// Protocol of accepted connections, derived from the configured address.
    type Kind: Copy + Send + 'static;

    /// All schemes by name. The first applies to an address without a scheme.
    const ALL: &'static [(&'static str, Self)];

    /// Whether the server listens on Unix sockets, and reads PROXY headers.
    const BEHIND_PROXIES: bool = false;

    /// Whether connections use TLS.
    fn is_tls(self) -> bool;

    /// The scheme of URLs for clients, if it differs.
    fn for_clients(self) -> Self {
        self
    }

    /// The protocol of connections at `listen`, whose address in the configuration is `configured`, perhaps with port
    /// 0; `tls_port` is the [port for redirects](crate::redirect_port) to an address with TLS.
    fn kind(listen: Listen<Self>, configured: ListenAddress, tls_port: Option<u16>) -> Self::Kind;
}

/// An address to listen on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listen<S> {
    /// The address.
    pub address: ListenAddress,
    /// The protocol.
    pub scheme: S,
    /// Whether a PROXY header precedes the protocol on each connection.
    pub proxied: bool,
}

impl<S> Listen<S> {
    /// Listens at `address`, without PROXY headers.
    pub fn new(address: impl Into<SocketAddr>, scheme: S) -> Self {
        Self { address: address.into().into(), scheme, proxied: false }
    }
}

/// The prefix of schemes that expect PROXY headers.
const PROXIED: &str = "proxy+";

/// The scheme with this name, and whether it expects PROXY headers.
pub(crate) fn scheme<S: Scheme>(name: &str) -> Option<(S, bool)> {
    let base_name = name.strip_prefix(PROXIED).filter(|_| S::BEHIND_PROXIES);
    let found = S::ALL.iter().find(|(scheme_name, _)| *scheme_name == base_name.unwrap_or(name));
    found.map(|(_, scheme)| (*scheme, base_name.is_some()))
}

impl<S: Scheme> Listen<S> {
    /// Whether connections use TLS.
    pub fn is_tls(&self) -> bool {
        self.scheme.is_tls()
    }
}

impl<S: Scheme> fmt::Display for Listen<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = S::ALL.iter().find(|(_, scheme)| *scheme == self.scheme);
        let proxied = if self.proxied { PROXIED } else { "" };
        write!(f, "{proxied}{}://{}", name.map_or("", |(name, _)| name), self.address)
    }
}

/// Parses `SCHEME://ADDR:PORT`, `SCHEME://unix:/PATH`, or an address alone. A port alone is at 127.0.0.1; `localhost`
/// means 127.0.0.1. Other host names are not resolved.
impl<S: Scheme> FromStr for Listen<S> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, address) = text.split_once("://").unwrap_or((S::ALL[0].0, text));
        match (scheme(name), ListenAddress::parse(address, S::BEHIND_PROXIES)) {
            (Some((scheme, proxied)), Some(address)) => Ok(Self { address, scheme, proxied }),
            _ => Err(format!("{text:?}: expected {}", <Self as Value>::expected())),
        }
    }
}

impl<S: Scheme> Value for Listen<S> {
    fn kind() -> String {
        "url".into()
    }

    fn expected() -> String {
        let names: Vec<_> = S::ALL.iter().map(|(name, _)| format!("{name}://")).collect();
        format!(
            "an address and a port such as \"127.0.0.1:8080\", \"[::]:8080\" for all addresses of the machine, \
             \"8080\" or \"localhost:8080\" for 127.0.0.1{}; optionally after {}",
            if S::BEHIND_PROXIES { ", or \"unix:/path\"" } else { "" },
            names.join(", ")
        )
    }

    fn read(value: &Given<'_>) -> Result<Self, String> {
        value.as_str().and_then(|text| text.parse().ok()).ok_or_else(String::new)
    }

    fn print(value: &Self) -> Written {
        value.to_string().into()
    }
}

/// A listen address is unavailable: in use, or not one of this machine.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {source}{}", port_hint(address, source))]
pub struct BindError {
    /// The configured address.
    pub address: ListenAddress,
    /// The system's error.
    pub source: io::Error,
}

/// A hint to append to the error of a refused port below 1024; empty for other errors.
fn port_hint(address: &ListenAddress, error: &io::Error) -> &'static str {
    let is_denied = error.kind() == io::ErrorKind::PermissionDenied;
    if is_denied && address.port().is_some_and(|port| (1..1024).contains(&port)) {
        "; ports below 1024 require root or the capability CAP_NET_BIND_SERVICE (in a systemd unit \
         AmbientCapabilities=CAP_NET_BIND_SERVICE)"
    } else {
        ""
    }
}

/// Returns an error for each repeated address. Addresses with port 0 never collide.
pub fn duplicate_addresses<S>(all: &[Listen<S>]) -> Vec<String> {
    let (mut seen, mut errors) = (Vec::<ListenAddress>::new(), Vec::new());
    for address in all.iter().map(|listen| listen.address) {
        if seen.iter().any(|other| address.collides(*other)) {
            errors.push(format!("{address} is listed twice"));
        }
        seen.push(address);
    }
    errors
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum TestScheme {
        A,
        B,
    }

    impl Scheme for TestScheme {
        type Kind = ();

        const ALL: &'static [(&'static str, Self)] = &[("a", Self::A), ("b-c", Self::B)];

        const BEHIND_PROXIES: bool = true;

        fn is_tls(self) -> bool {
            self == Self::B
        }

        fn kind(_: Listen<Self>, _: ListenAddress, _: Option<u16>) {}
    }

    #[test]
    fn urls_addresses_and_bare_ports() {
        let table = [
            ("8080", Some("a://127.0.0.1:8080")),
            ("b-c://8080", Some("b-c://127.0.0.1:8080")),
            ("a://[::]:0", Some("a://[::]:0")),
            ("65535", Some("a://127.0.0.1:65535")),
            ("[::]:80", Some("a://[::]:80")),
            ("b-c://0.0.0.0:80", Some("b-c://0.0.0.0:80")),
            ("d://0.0.0.0:80", None),
            ("a:0.0.0.0:80", None),
            ("65536", None),
            ("+80", None),
            ("-1", None),
            ("", None),
            (":8080", None),
            ("*:8080", None),
            ("localhost:8080", Some("a://127.0.0.1:8080")),
            ("b-c://localhost:8080", Some("b-c://127.0.0.1:8080")),
            ("unix:/run/a b.sock", Some("a://unix:/run/a b.sock")),
            ("proxy+b-c://unix:/s?mode=0666", Some("proxy+b-c://unix:/s?mode=666")),
            ("unix:/s?mode=660", Some("a://unix:/s")),
            ("unix:/s?mode=1777", None),
            ("unix:/s?mode=8", None),
            ("unix:/s?mode=+66", None),
            ("unix:/s?mode=", None),
            ("unix:s", None),
            ("unix:", None),
            ("proxy+a://8080", Some("proxy+a://127.0.0.1:8080")),
            ("proxy+proxy+a://8080", None),
            ("proxy+://8080", None),
            ("localhost:0.0.0.0:80", None),
            ("localhost", None),
            ("example.org:8080", None),
            ("::1", None),
            ("127.0.0.1", None),
        ];
        for (text, expected) in table {
            let found = text.parse::<Listen<TestScheme>>();
            assert_eq!(found.as_ref().ok().map(ToString::to_string).as_deref(), expected, "{text}");
            if let Err(error) = found {
                assert!(error.starts_with(&format!("{text:?}: expected ")), "{error}");
                assert!(
                    error.contains("[::]:8080") && error.contains("after a://, b-c://"),
                    "{error}"
                );
            }
        }
    }

    #[test]
    fn refused_low_ports_are_explained() {
        let hint = |address: &str, kind: io::ErrorKind| {
            let error = BindError {
                address: ListenAddress::Ip(address.parse().unwrap()),
                source: kind.into(),
            };
            error.to_string().contains("CAP_NET_BIND_SERVICE")
        };
        assert!(hint("0.0.0.0:80", io::ErrorKind::PermissionDenied));
        assert!(hint("[::]:1023", io::ErrorKind::PermissionDenied));
        assert!(!hint("0.0.0.0:1024", io::ErrorKind::PermissionDenied));
        assert!(!hint("0.0.0.0:0", io::ErrorKind::PermissionDenied));
        assert!(!hint("0.0.0.0:80", io::ErrorKind::AddrInUse));
    }

    #[test]
    fn each_repetition_is_reported() {
        let list =
            [1, 0, 2, 0, 1].map(|port| Listen::new((Ipv4Addr::LOCALHOST, port), TestScheme::A));
        assert_eq!(duplicate_addresses(&list), ["127.0.0.1:1 is listed twice"]);
        let unix: [Listen<TestScheme>; 2] =
            ["unix:/s", "b-c://unix:/s?mode=600"].map(|text| text.parse().unwrap());
        assert_eq!(duplicate_addresses(&unix), ["unix:/s?mode=600 is listed twice"]);
    }
}
