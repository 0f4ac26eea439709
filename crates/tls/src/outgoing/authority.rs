//! The authority of a URL: a host and a port.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// A host and a port, as in a URL.
///
/// ```
/// use phalanx_tls::Authority;
///
/// let server = Authority::parse("[::1]", 1883)?;
/// assert_eq!((server.host.as_str(), server.to_string().as_str()), ("::1", "[::1]:1883"));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authority {
    /// A host name, or an IP address without brackets.
    pub host: String,
    /// The TCP port.
    pub port: u16,
}

impl Authority {
    /// Parses `HOST` or `HOST:PORT`. An IPv6 address is in brackets.
    ///
    /// # Errors
    /// A description of the mistake.
    pub fn parse(text: &str, default_port: u16) -> Result<Self, String> {
        let (host, port, is_host) = match text.strip_prefix('[') {
            Some(inside) => {
                let (host, rest) = inside.split_once(']').ok_or("[ is not closed")?;
                let port = match (rest.strip_prefix(':'), rest) {
                    (None, "") => None,
                    (None, _) => return Err("expected :PORT or nothing after ]".into()),
                    (port, _) => port,
                };
                (host, port, host.parse::<Ipv6Addr>().is_ok())
            }
            None => {
                let (host, port) =
                    text.rsplit_once(':').map_or((text, None), |(host, port)| (host, Some(port)));
                let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
                (host, port, host.bytes().all(is_plain))
            }
        };
        if host.is_empty() {
            return Err("no host".into());
        }
        if !is_host {
            let what = "is neither a host name nor an IP address; an IPv6 address needs brackets";
            return Err(format!("{host:?} {what}"));
        }
        let port = match port.map(str::parse) {
            None => default_port,
            Some(Ok(port @ 1..)) => port,
            Some(_) => {
                let port = port.unwrap_or_default();
                return Err(format!("{port:?} is not a port from 1 to 65535"));
            }
        };
        Ok(Self { host: host.to_owned(), port })
    }

    /// The host as in a URL: an IPv6 address in brackets.
    pub fn url_host(&self) -> String {
        match self.host.parse::<IpAddr>() {
            Ok(IpAddr::V6(address)) => format!("[{address}]"),
            _ => self.host.clone(),
        }
    }
}

impl fmt::Display for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.url_host(), self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports() {
        for (text, printed) in [
            ("a", "a:7"),
            ("a.example.org:1", "a.example.org:1"),
            ("10.0.0.1:65535", "10.0.0.1:65535"),
            ("[::1]", "[::1]:7"),
            ("[::1]:9", "[::1]:9"),
        ] {
            let authority = Authority::parse(text, 7).unwrap();
            assert_eq!(authority.to_string(), printed);
            assert_eq!(Authority::parse(printed, 7), Ok(authority));
        }
        for (text, reason) in [
            ("", "no host"),
            (":1", "no host"),
            ("::1", "brackets"),
            ("a b", "host name"),
            ("u@a", "host name"),
            ("[a]", "host name"),
            ("a:0", "not a port"),
            ("a:x", "not a port"),
            ("[::1", "not closed"),
            ("[::1]8", ":PORT"),
        ] {
            let error = Authority::parse(text, 7).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
