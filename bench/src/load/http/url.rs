//! Target of the load: `http://host:port/path` or `https`.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;

/// A parsed absolute `http` or `https` URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// Whether the scheme is `https`.
    pub tls: bool,
    /// The authority, for the `Host` field.
    pub authority: String,
    /// A name or an address, without brackets.
    pub host: String,
    /// The port; by default 80, or 443 with TLS.
    pub port: u16,
    /// Path and query; begins with a slash.
    pub target: String,
}

/// Errors of parsing a URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UrlError {
    /// The scheme is neither `http://` nor `https://`.
    #[error(
        "a URL must begin with http:// or https://, for example http://127.0.0.1:8080/index.html"
    )]
    Scheme,
    /// The host is empty, or contains a user, a space or a control character.
    #[error("{0:?} is not a host")]
    Host(String),
    /// The port is not a number from 1 to 65535.
    #[error("{0:?} is not a port")]
    Port(String),
    /// White space or control characters in the path, which would end the request line.
    #[error(
        "a path must not contain white space or control characters; percent-encode them, as in %20"
    )]
    Target,
}

impl FromStr for Url {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let (tls, rest) = match text.split_once("://") {
            Some(("http", rest)) => (false, rest),
            Some(("https", rest)) => (true, rest),
            _ => return Err(UrlError::Scheme),
        };
        let (authority, target) = match rest.find(['/', '?', '#']) {
            Some(at) => rest.split_at(at),
            None => (rest, "/"),
        };
        // A fragment is not sent to servers.
        let target = target.split('#').next().unwrap_or_default();
        let target = match target.starts_with('/') {
            true => target.to_owned(),
            false => format!("/{target}"),
        };
        if !is_target(&target) {
            return Err(UrlError::Target);
        }
        let (host, port) = split(authority, if tls { 443 } else { 80 })?;
        let bad = |c: char| c.is_whitespace() || c.is_control() || c == '@';
        if host.is_empty() || host.contains(bad) {
            return Err(UrlError::Host(host.to_owned()));
        }
        Ok(Self { tls, authority: authority.to_owned(), host: host.to_owned(), port, target })
    }
}

/// Whether `text` is valid as a request target.
pub(crate) fn is_target(text: &str) -> bool {
    text.starts_with('/') && text.bytes().all(|byte| byte > b' ' && byte != 0x7f)
}

/// Host without brackets, and port, by default `usual`.
fn split(authority: &str, usual: u16) -> Result<(&str, u16), UrlError> {
    let (host, port) = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, "")) => (host, None),
        Some((host, rest)) => {
            (host, Some(rest.strip_prefix(':').ok_or(UrlError::Port(rest.to_owned()))?))
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    let Some(port) = port else { return Ok((host, usual)) };
    match port.parse() {
        Ok(number) if number > 0 => Ok((host, number)),
        _ => Err(UrlError::Port(port.to_owned())),
    }
}

impl Url {
    /// The first address of the host.
    ///
    /// # Errors
    /// The resolver's error.
    pub fn resolve(&self) -> io::Result<SocketAddr> {
        let mut addresses = (self.host.as_str(), self.port).to_socket_addrs()?;
        addresses.next().ok_or_else(|| io::Error::other("the name has no address"))
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority, self.target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        let read = |text: &str| text.parse::<Url>().map(|url| (url.host, url.port, url.target));
        let ok = |host: &str, port, target: &str| Ok((host.to_owned(), port, target.to_owned()));
        assert_eq!(read("http://a"), ok("a", 80, "/"));
        assert_eq!(read("http://127.0.0.1:8080/x?y#z"), ok("127.0.0.1", 8080, "/x?y"));
        assert_eq!(read("http://a:1?q"), ok("a", 1, "/?q"));
        assert_eq!(read("http://[::1]:81/"), ok("::1", 81, "/"));
        assert_eq!(read("http://[::1]"), ok("::1", 80, "/"));
        assert_eq!(read("https://a/"), ok("a", 443, "/"));
        assert_eq!(read("https://a:44"), ok("a", 44, "/"));
        assert_eq!("https://[::1]:4/x".parse::<Url>().unwrap().to_string(), "https://[::1]:4/x");
        assert_eq!(read("ftp://a/"), Err(UrlError::Scheme));
        assert_eq!(read("127.0.0.1:80"), Err(UrlError::Scheme));
        assert_eq!(read("http:///x"), Err(UrlError::Host(String::new())));
        assert_eq!(read("http://u@a/"), Err(UrlError::Host("u@a".into())));
        assert_eq!(read("http://a:0/"), Err(UrlError::Port("0".into())));
        assert_eq!(read("http://a:b/"), Err(UrlError::Port("b".into())));
        assert_eq!(read("http://a/b c"), Err(UrlError::Target));
    }
}
