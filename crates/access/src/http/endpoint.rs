//! A URL, and the authorities that sign the certificate of its server.

use std::fmt;
use std::net::IpAddr;
use std::path::Path;

use phalanx::net::{IoTimeout, Resolver};
use phalanx_tls::{Authority, Connector, Wire, dial};

use crate::error::FileError;

/// The URL of a service, ready for requests.
#[derive(Clone)]
pub struct Endpoint {
    pub(crate) url: String,
    pub(super) authority: Authority,
    /// Path and query.
    pub(super) target: String,
    connector: Option<Connector>,
}

impl Endpoint {
    /// Parses a URL, and loads the authorities in a PEM file, by default those of the system. May block.
    ///
    /// # Errors
    /// Like [`check`](Self::check), and if the authorities cannot be loaded.
    pub fn open(url: &str, authorities: Option<&Path>) -> Result<Self, FileError> {
        let (is_tls, authority, target) = parse(url).map_err(FileError::Unusable)?;
        let connector = match is_tls {
            true => Some(Connector::load(authorities, None, &[b"http/1.1"])?),
            false => None,
        };
        Ok(Self { url: url.to_owned(), authority, target, connector })
    }

    /// Checks a URL without loading authorities. Without TLS only this machine's own addresses are allowed, because the
    /// answers decide about access.
    ///
    /// # Errors
    /// A description of the error.
    pub fn check(url: &str) -> Result<(), String> {
        parse(url).map(drop)
    }

    /// Whether both have the same URL and trust the same authorities.
    pub(crate) fn is_as(&self, other: &Self) -> bool {
        let trusts_as = match (&self.connector, &other.connector) {
            (Some(own), Some(other)) => own.trusts_as(other),
            (own, other) => own.is_none() && other.is_none(),
        };
        self.url == other.url && trusts_as
    }

    pub(crate) async fn connect(
        &self,
        resolver: &Resolver,
        limit: IoTimeout,
    ) -> Result<Wire, String> {
        let Authority { host, port } = &self.authority;
        let connection = dial(resolver, (host, *port), self.connector.as_ref(), limit).await;
        connection.map(|(wire, _)| wire).map_err(|error| error.to_string())
    }
}

/// The URL without its query, which may contain a secret.
impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.url.split('?').next().unwrap_or_default())
    }
}

/// Whether the URL has TLS, its host and port, and its path and query.
fn parse(url: &str) -> Result<(bool, Authority, String), String> {
    let redacted = redacted(url);
    let invalid = |message: &str| {
        format!("found {redacted:?}, expected https://HOST[:PORT][/PATH]: {message}")
    };
    let (is_tls, rest) = match (url.strip_prefix("https://"), url.strip_prefix("http://")) {
        (Some(rest), _) => (true, rest),
        (_, Some(rest)) => (false, rest),
        _ => return Err(invalid("the scheme is not supported")),
    };
    let (host, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let authority = Authority::parse(host, if is_tls { 443 } else { 80 });
    let authority = authority.map_err(|message| match url.contains('@') {
        true => invalid("the host is invalid; a user name and a password are not supported"),
        false => invalid(&message),
    })?;
    let is_local = authority.host == "localhost"
        || authority.host.parse().is_ok_and(|address: IpAddr| address.is_loopback());
    if !is_tls && !is_local {
        return Err(invalid("without TLS only addresses of this machine are allowed"));
    }
    let is_visible = |byte: u8| byte.is_ascii_graphic() && byte != b'#';
    if !path.bytes().all(is_visible) {
        return Err(invalid("the path contains a fragment, white space or other characters"));
    }
    let target = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    Ok((is_tls, authority, target))
}

/// The URL without what may be secret: query, fragment, user name and password.
fn redacted(url: &str) -> &str {
    match url.contains('@') {
        // The end of the password is ambiguous, so everything after the scheme is omitted.
        true => url.find("://").map_or("", |at| &url[..at + 3]),
        false => url.split(['?', '#']).next().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_shown_in_errors() {
        for url in [
            "http://a.example/?key=hidden",
            "ftp://a?hidden",
            "https://a:0?hidden",
            "https://a/ b?hidden",
            "https://a/#hidden",
            "https://hidden@a",
            "https://user:hidden@a",
            "https://user:hidden/@a",
            "https://user:hidden?hidden@a",
            "user:hidden@a",
        ] {
            let error = Endpoint::check(url).unwrap_err();
            assert!(!error.contains("hidden"), "{error}");
        }
    }

    #[test]
    fn queries_are_not_shown() {
        let endpoint = Endpoint::open("http://localhost/a?key=b", None).unwrap();
        assert_eq!((&*endpoint.to_string(), &*endpoint.target), ("http://localhost/a", "/a?key=b"));
    }

    #[test]
    fn urls() {
        for (url, is_tls, host, target) in [
            ("https://a.example", true, "a.example:443", "/"),
            ("https://a.example:8443/b?c=d", true, "a.example:8443", "/b?c=d"),
            ("https://a.example?c", true, "a.example:443", "/?c"),
            ("http://127.0.0.1:80/x", false, "127.0.0.1:80", "/x"),
            ("http://localhost/", false, "localhost:80", "/"),
            ("http://[::1]:9", false, "[::1]:9", "/"),
        ] {
            let (found, authority, path) = parse(url).unwrap();
            assert_eq!((found, &*authority.to_string(), &*path), (is_tls, host, target), "{url}");
        }
        for (url, message) in [
            ("", "the scheme"),
            ("ftp://a", "the scheme"),
            ("https://", "no host"),
            ("https://a:0", "not a port"),
            ("https://user:password@a", "not supported"),
            ("https://user@a", "not supported"),
            ("http://a.example/", "without TLS"),
            ("http://10.0.0.1/", "without TLS"),
            ("https://a/ b", "white space"),
            ("https://a/#b", "fragment"),
            ("https://a/\r\nX: y", "white space"),
        ] {
            assert!(Endpoint::check(url).unwrap_err().contains(message), "{url}");
        }
    }
}
