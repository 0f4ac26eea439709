//! Protection against DNS rebinding: the host names for which the admin pages are served.
//!
//! A web page can point its own host name at 127.0.0.1, so that a browser treats the admin pages as part of
//! that site. The browser then sends that name in `Host`. Therefore only names that no such page controls are
//! accepted: IP addresses, `localhost`, and the names that the program allows.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Accepted names in addition to IP addresses and `localhost`.
#[derive(Debug, Default)]
pub(crate) struct Hosts(Box<[String]>);

impl Hosts {
    /// Accepts `names`, without ports and regardless of case.
    pub(crate) fn new(names: Vec<String>) -> Self {
        Self(names.into())
    }

    /// Whether `authority`, the value of `Host` with or without a port, is accepted.
    pub(super) fn accept(&self, authority: &str) -> bool {
        without_port(authority).is_some_and(|host| address(host).is_some() || self.is_named(host))
    }

    /// Whether `origin`, the value of `Origin`, has an accepted name, or the address to which the request was sent
    /// according to `authority`, the value of `Host`. Other addresses are not accepted, because anyone may serve a page
    /// there, and neither is `null`.
    pub(super) fn accept_origin(&self, origin: &str, authority: Option<&str>) -> bool {
        let Some(host) = host_of_origin(origin) else { return false };
        let own = || authority.and_then(without_port).and_then(address);
        self.is_named(host) || address(host).is_some_and(|address| own() == Some(address))
    }

    fn is_named(&self, host: &str) -> bool {
        is_localhost(host) || self.0.iter().any(|name| same_name(name, host))
    }
}

/// The name or IPv4 address that [`Hosts::new`] needs to accept `origin`; `None` if no name accepts it.
pub(super) fn host_to_allow(origin: &str) -> Option<&str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    host_of_origin(origin).filter(|host| !host.is_empty() && host.bytes().all(is_plain))
}

fn host_of_origin(origin: &str) -> Option<&str> {
    origin.split_once("://").and_then(|(_, page)| without_port(page))
}

/// The host of `HOST[:PORT]`; `None` if the text after the colon is not a port.
fn without_port(authority: &str) -> Option<&str> {
    let end = authority.rfind(']').map_or(0, |bracket| bracket + 1);
    match authority[end..].find(':') {
        None => Some(authority),
        Some(colon) => {
            let (host, port) = authority.split_at(end + colon);
            port[1..].bytes().all(|byte| byte.is_ascii_digit()).then_some(host)
        }
    }
}

/// Parses `host` as an IP address.
fn address(host: &str) -> Option<IpAddr> {
    match host.strip_prefix('[') {
        Some(v6) => v6.strip_suffix(']')?.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
        None => host.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
    }
}

/// Whether `host` is `localhost` or a name beneath it, which browsers resolve only to the loopback address (RFC 6761
/// §6.3).
fn is_localhost(host: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host);
    let above = host.len().checked_sub("localhost".len());
    above.is_some_and(|above| {
        let (before, last) = host.as_bytes().split_at(above);
        last.eq_ignore_ascii_case(b"localhost") && (before.is_empty() || before.ends_with(b"."))
    })
}

/// Compares names regardless of case and of a final dot.
fn same_name(one: &str, other: &str) -> bool {
    let without_dot = |name| str::strip_suffix(name, ".").unwrap_or(name);
    without_dot(one).eq_ignore_ascii_case(without_dot(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_no_web_page_controls_are_accepted() {
        let hosts = Hosts::new(vec!["metrics.example.org".into(), "admin.".into()]);
        for (host, accepted) in [
            ("127.0.0.1", true),
            ("127.0.0.1:8081", true),
            ("10.1.2.3:1", true),
            ("[::1]", true),
            ("[::1]:8081", true),
            ("[fe80::1]:8081", true),
            ("localhost", true),
            ("LocalHost.:8081", true),
            ("a.localhost", true),
            ("Metrics.Example.org:9100", true),
            ("metrics.example.org.", true),
            ("admin", true),
            ("", false),
            (":8081", false),
            ("evil.example", false),
            ("127.0.0.1.evil.example", false),
            ("localhost.evil.example", false),
            ("evillocalhost", false),
            ("metrics.example.org.evil.example", false),
            ("a.metrics.example.org", false),
            ("127.0.0.1@evil.example", false),
            ("evil.example:80@127.0.0.1", false),
            ("localhost:evil.example", false),
            ("[::1].evil.example", false),
            ("[evil.example]", false),
            ("::1", false),
            ("é.localhostx", false),
        ] {
            assert_eq!(hosts.accept(host), accepted, "{host:?}");
            let origin = format!("http://{host}");
            assert_eq!(hosts.accept_origin(&origin, Some(host)), accepted, "{host:?}");
        }
        assert!(!hosts.accept_origin("null", None) && !hosts.accept_origin("localhost", None));
    }

    #[test]
    fn an_origin_with_a_plain_host_can_be_allowed() {
        for (origin, name) in [
            ("http://evil.example", Some("evil.example")),
            ("https://a_b.example.:8443", Some("a_b.example.")),
            ("http://203.0.113.6:80", Some("203.0.113.6")),
            ("http://[2001:db8::66]:8081", None),
            ("http://", None),
            ("http://a b", None),
            ("null", None),
        ] {
            assert_eq!(host_to_allow(origin), name, "{origin}");
            let allowed = Hosts::new(name.into_iter().map(Into::into).collect());
            assert_eq!(allowed.accept_origin(origin, None), name.is_some(), "{origin}");
        }
    }

    /// A web page may also have an IP address as its host.
    #[test]
    fn pages_at_other_addresses_are_rejected() {
        let hosts = Hosts::new(vec!["192.0.2.7".into()]);
        for (origin, host, accepted) in [
            ("http://127.0.0.1:8081", Some("127.0.0.1:8081"), true),
            ("http://[::1]", Some("[0::1]:8081"), true),
            ("http://localhost", Some("127.0.0.1:8081"), true),
            ("https://192.0.2.7", Some("127.0.0.1:8081"), true),
            ("http://203.0.113.6", Some("127.0.0.1:8081"), false),
            ("http://[2001:db8::66]:8081", Some("[::1]:8081"), false),
            ("http://127.0.0.1", Some("localhost"), false),
            ("http://127.0.0.1", None, false),
        ] {
            assert_eq!(hosts.accept_origin(origin, host), accepted, "{origin} {host:?}");
        }
    }
}
