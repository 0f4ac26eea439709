//! Listen addresses and their protocols.

use std::net::SocketAddr;

use phalanx_service::ListenAddress;

/// Protocol of a listen address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Plain HTTP.
    Http,
    /// HTTP over TLS, with the hosts' certificates.
    Https,
    /// Plain HTTP, where every request is redirected to [`https_port`](crate::Config::https_port), or to the first TLS
    /// address that other machines can reach.
    RedirectHttps,
}

/// A listen address.
///
/// ```
/// use phalanx_web::{Listen, Scheme};
///
/// let listen: Listen = "https://127.0.0.1:8443".parse()?;
/// assert_eq!(listen.scheme, Scheme::Https);
/// assert_eq!("8080".parse::<Listen>()?.to_string(), "http://127.0.0.1:8080");
/// # Ok::<(), String>(())
/// ```
pub type Listen = phalanx_service::Listen<Scheme>;

impl Scheme {
    /// A listen address with this protocol.
    pub fn at(self, address: impl Into<SocketAddr>) -> Listen {
        Listen::new(address, self)
    }
}

/// Whether an address has HTTP/3: it uses TLS, and is neither a Unix socket nor behind a TCP proxy.
pub(crate) fn has_http3(listen: &Listen) -> bool {
    listen.is_tls() && !listen.proxied && listen.address.ip().is_some()
}

/// Protocol spoken on a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListenerKind {
    /// Plain HTTP.
    Plain,
    /// HTTP over TLS.
    Tls,
    /// Plain HTTP, where every request is redirected to this TLS port, or to `https-port` if it is set.
    RedirectHttps(u16),
}

/// How connections of a listener begin.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// The protocol.
    pub kind: ListenerKind,
    /// Whether connections begin with a PROXY header.
    pub proxied: bool,
}

impl Arrival {
    /// Plain HTTP.
    pub(crate) const PLAIN: Self = Self { kind: ListenerKind::Plain, proxied: false };
}

impl phalanx_service::Scheme for Scheme {
    type Kind = Arrival;

    const BEHIND_PROXIES: bool = true;

    const ALL: &'static [(&'static str, Self)] =
        &[("http", Self::Http), ("https", Self::Https), ("redirect-https", Self::RedirectHttps)];

    fn is_tls(self) -> bool {
        self == Self::Https
    }

    fn for_clients(self) -> Self {
        if self == Self::RedirectHttps { Self::Http } else { self }
    }

    fn kind(listen: Listen, _: ListenAddress, tls_port: Option<u16>) -> Arrival {
        let kind = match (listen.scheme, tls_port) {
            (Self::Https, _) => ListenerKind::Tls,
            (Self::RedirectHttps, Some(port)) => ListenerKind::RedirectHttps(port),
            _ => ListenerKind::Plain,
        };
        Arrival { kind, proxied: listen.proxied }
    }
}
