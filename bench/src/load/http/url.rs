//! Target of the load: `http://host:port/path` or `https`.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;

use phalanx_tls::Authority;

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
    /// The host or the port is invalid.
    #[error("{0}")]
    Authority(String),
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
        let Authority { host, port } =
            Authority::parse(authority, if tls { 443 } else { 80 }).map_err(UrlError::Authority)?;
        Ok(Self { tls, authority: authority.to_owned(), host, port, target })
    }
}

/// Whether `text` is valid as a request target.
pub(crate) fn is_target(text: &str) -> bool {
    text.starts_with('/') && text.bytes().all(|byte| byte > b' ' && byte != 0x7f)
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
        for authority in ["", "u@a", "a:0", "a:b"] {
            let url = format!("http://{authority}/x");
            assert!(matches!(read(&url), Err(UrlError::Authority(_))), "{url}");
        }
        assert_eq!(read("http://a/b c"), Err(UrlError::Target));
    }
}
