//! Reverse proxy: paths whose requests are forwarded to other servers.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use phalanx_config::{Given, Short, Size, Value, Written, settings};
use phalanx_tls::Authority;

use crate::config::{DAY, MILLISECOND};

settings! {
    /// Paths whose requests are forwarded to other servers.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Proxy {
        /// The paths: this one, and all below it. `/` stands for all paths.
        pub prefix: String
            => required("prefix",
                "path to forward, with all paths below it; / for all; the first matching rule applies");
        /// The servers, which share the requests.
        pub to: Vec<Upstream>
            => required("to",
                "servers that share the requests, such as http://127.0.0.1:3000, or https://app:3000 for TLS; they get \
                 HTTP/1.1, or HTTP/2 with h2c://127.0.0.1:50051, and over TLS with h2://app:50051");
        /// PEM file with the authorities that sign the certificates of servers with TLS; `None` for those of the
        /// system.
        pub authorities: Option<PathBuf>
            => key("ca", "PEM file with the authorities of https and h2 servers; false for those of the system");
        /// Whether the prefix is removed from the path that a server gets.
        pub strip_prefix: bool => key("strip-prefix", "remove the prefix from the path");
        /// Whether the servers get the client's `Host`; otherwise they get the host of their URL.
        pub preserve_host: bool = true
            => key("preserve-host", "forward the client's `Host`; otherwise the servers get the host of their URL");
        /// Maximum size of a request body, in bytes; requests with larger ones get 413.
        pub max_body: u64 = 100 << 20
            => key_as::<Size>("max-body", "maximum size of a request body; larger ones get 413");
        /// Minimum average rate at which a client must send a body, in bytes per second; zero for no minimum.
        pub min_body_rate: u64 = 500
            => key("min-body-rate",
                "minimum average rate at which a client must send a body, in bytes per second; slower ones get 408; \
                 0 for no minimum");
        /// Maximum number of requests in progress at each server, over all workers.
        pub max_requests: usize = 256
            => range("max-requests", 1..,
                "maximum number of requests in progress at each server, over all workers; each worker may always \
                 have one");
        /// Maximum number of tunnels at each server, over all workers, that do not count as requests in progress.
        pub max_tunnels: usize = 1024
            => key("max-tunnels",
                "number of tunnels at each server, such as WebSockets, over all workers, that do not count towards \
                 max-requests; further tunnels do");
        /// Maximum number of requests that wait while every server has [`max_requests`](Self::max_requests) in
        /// progress.
        pub max_queue: usize = 256
            => key("max-queue",
                "maximum number of requests that wait while all servers are busy, over all workers; further ones get \
                 503");
        /// Maximum number of unused connections that are kept to each server.
        pub max_idle: usize = 32
            => key("max-idle-connections",
                "maximum number of unused connections that each worker keeps to each server; more if it has just needed \
                 more, up to its part of max-requests");
        /// Time for which an unused connection is kept.
        pub keep_alive: Duration = Duration::from_secs(30)
            => range("keep-alive", MILLISECOND..=DAY, "time for which an unused connection is kept");
        /// Maximum time to wait for a free server, and to connect.
        pub connect_timeout: Duration = Duration::from_secs(5)
            => range("connect-timeout", MILLISECOND..=DAY,
                "time to wait for a free server and to connect; then 503 or 504");
        /// Time from the request to the head of the response.
        pub response_timeout: Duration = Duration::from_secs(60)
            => range("response-timeout", MILLISECOND..=DAY, "time until the head of a response arrives; then 504");
        /// Time between two parts of a body, or of a tunnel.
        pub idle_timeout: Duration = Duration::from_secs(60)
            => range("idle-timeout", MILLISECOND..=DAY, "time between two parts of a body or of a tunnel");
        /// Regular health checks of the servers; `None` for none.
        pub health: Option<HealthCheck>
            => optional("health", "check regularly whether each server is up; true uses the defaults below");
    }
}

settings! {
    /// Regular requests that determine whether a server is up: it must respond within `timeout` with a status from 200
    /// to 399.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct HealthCheck {
        /// Path of the requests.
        pub path: String = "/".into() => key("path", "path of the requests");
        /// Time between two checks of a server.
        pub interval: Duration = Duration::from_secs(5)
            => range("interval", MILLISECOND..=DAY, "time between two checks of a server");
        /// Time to the head of a response.
        pub timeout: Duration = Duration::from_secs(2)
            => range("timeout", MILLISECOND..=DAY, "time to the head of a response");
        /// Successful checks in a row after which a server gets requests again.
        pub healthy: u32 = 2
            => range("healthy", 1.., "successful checks in a row until a server gets requests again");
        /// Failed checks in a row after which a server gets no more requests.
        pub unhealthy: u32 = 3
            => range("unhealthy", 1..,
                "failed checks in a row until a server gets no more requests; for the first check, one failure is \
                 enough");
    }
}

impl Proxy {
    /// Maximum number of connections from `workers` workers to all servers: connections in use, unused ones and health
    /// checks.
    pub(crate) fn max_connections(&self, workers: usize) -> usize {
        // Each worker may always have one request in progress.
        let in_use = self.max_requests.max(workers).saturating_add(self.max_tunnels);
        let idle = match self.max_idle {
            0 => 0,
            // As many as its own part of the requests, if it has just needed them.
            most => most.max(part_of_worker(self.max_requests, workers)),
        };
        let of_server = in_use.saturating_add(idle.saturating_mul(workers));
        of_server.saturating_add(1).saturating_mul(self.to.len())
    }
}

/// The part of each worker in a limit of which half is divided among them.
pub(crate) fn part_of_worker(limit: usize, workers: usize) -> usize {
    limit / 2 / workers.max(1)
}

/// Short form: a path and a server, such as `/api=http://127.0.0.1:3000`, or the server alone for all paths.
impl Short for Proxy {
    const KIND: &'static str = "path=url";
    const EXPECTED: &'static str = "a path and a URL such as \"/api=http://127.0.0.1:3000\"";

    /// If the list contains the path already, the server is added to its rule.
    fn add(list: &mut Vec<Self>, text: &str) -> Result<(), String> {
        let (prefix, url) = match text.rsplit_once('=') {
            Some(parts) => parts,
            None if text.starts_with('/') => return Err("a path without a server".into()),
            None => ("/", text),
        };
        if !is_prefix(prefix) {
            return Err(format!("found the path {prefix:?}, {EXPECTED_PREFIX}"));
        }
        let server: Upstream = url.parse()?;
        match list.iter_mut().find(|proxy| proxy.prefix == prefix) {
            Some(proxy) => proxy.to.push(server),
            None => {
                list.push(Self { prefix: prefix.to_owned(), to: vec![server], ..Self::default() });
            }
        }
        Ok(())
    }
}

/// Description of a valid prefix, for error messages.
pub(crate) const EXPECTED_PREFIX: &str =
    "expected a path such as \"/api\", without a slash at its end";

/// Whether `path` can be the target of a request.
pub(crate) fn is_target(path: &str) -> bool {
    path.starts_with('/') && path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#')
}

/// Whether `prefix` is a valid request path without a trailing slash.
pub(crate) fn is_prefix(prefix: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/-._~!$&'()+,;=:@".contains(c);
    let has_dots = prefix.split('/').any(|segment| matches!(segment, "." | ".."));
    let is_path = prefix.starts_with('/') && !prefix.ends_with('/') && !prefix.contains("//");
    prefix == "/" || is_path && !has_dots && prefix.chars().all(is_plain)
}

/// A server to which requests are forwarded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// Host name, or an IP address without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Whether to use TLS and verify the certificate for the host.
    pub is_tls: bool,
    /// Whether it gets HTTP/2, without TLS with prior knowledge; otherwise HTTP/1.1.
    pub is_http2: bool,
}

/// Schemes with their default ports: those of HTTP/1.1, then those of HTTP/2. The second one of each uses TLS.
const SCHEMES: [(&str, u16); 4] =
    [("http://", 80), ("https://", 443), ("h2c://", 80), ("h2://", 443)];

impl FromStr for Upstream {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |message: &str| Err(format!("found {text:?}, {message}"));
        let scheme = |n: usize| Some((n, text.strip_prefix(SCHEMES[n].0)?));
        let Some((scheme, authority)) = (0..SCHEMES.len()).find_map(scheme) else {
            return wrong("expected a URL such as http://127.0.0.1:3000");
        };
        let authority = authority.strip_suffix('/').unwrap_or(authority);
        if authority.contains('/') {
            return wrong("expected a URL without a path; `strip-prefix` removes the prefix");
        }
        match Authority::parse(authority, SCHEMES[scheme].1) {
            Ok(Authority { host, port }) => {
                Ok(Self { host, port, is_tls: scheme % 2 == 1, is_http2: scheme >= 2 })
            }
            Err(reason) => wrong(&reason),
        }
    }
}

impl Upstream {
    /// Host and port, as in `Host`.
    pub fn authority(&self) -> String {
        let Self { host, port, .. } = self.clone();
        let authority = Authority { host, port };
        let (_, default) = self.scheme();
        if port == default { authority.url_host() } else { authority.to_string() }
    }

    /// The scheme and its default port.
    fn scheme(&self) -> (&'static str, u16) {
        SCHEMES[usize::from(self.is_tls) + 2 * usize::from(self.is_http2)]
    }

    /// The URL of the server as HTTP writes it: with the scheme `http` or `https`.
    pub(crate) fn http_url(&self) -> String {
        Self { is_http2: false, ..self.clone() }.to_string()
    }
}

impl fmt::Display for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.scheme().0, self.authority())
    }
}

impl Value for Upstream {
    fn kind() -> String {
        "url".into()
    }

    fn expected() -> String {
        "a URL such as \"http://127.0.0.1:3000\"".into()
    }

    fn read(value: &Given<'_>) -> Result<Self, String> {
        let text = value.as_str().ok_or("")?;
        let has_scheme = SCHEMES.iter().any(|(scheme, _)| text.starts_with(scheme));
        let reason = |reason: String| if has_scheme { reason } else { String::new() };
        text.parse().map_err(reason)
    }

    fn print(upstream: &Self) -> Written {
        upstream.to_string().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes() {
        assert!(["/", "/api", "/a/b.c"].into_iter().all(is_prefix));
        for wrong in ["", "api", "/api/", "/a//b", "/a/../b", "/a b", "/a?", "/%61", "/a*"] {
            assert!(!is_prefix(wrong), "{wrong}");
        }
    }

    #[test]
    fn rules_hide_later_ones() {
        for (prefixes, is_hidden) in [
            (["/", "/api"], true),
            (["/api", "/api/v1"], true),
            (["/api", "/api"], true),
            (["/api", "/apis"], false),
            (["/api", "/"], false),
        ] {
            let rule = |prefix: &str| {
                let (prefix, to) = (prefix.to_owned(), vec!["http://a".parse().unwrap()]);
                Proxy { prefix, to, ..Proxy::default() }
            };
            let mut config = crate::Config::with_root(".");
            config.hosts[0].proxies = prefixes.map(rule).to_vec();
            let errors: Vec<_> = config.check().iter().map(ToString::to_string).collect();
            assert_eq!(errors.len(), usize::from(is_hidden), "{prefixes:?}: {errors:?}");
            assert!(errors.iter().all(|error| error.starts_with("host[0].proxy[1].prefix: ")));
        }
    }

    #[test]
    fn certificates_name_hosts() {
        for (url, is_valid) in [("https://a..b", false), ("http://a..b", true), ("https://a", true)]
        {
            let mut config = crate::Config::with_root(".");
            config.hosts[0].proxies = vec![Proxy {
                prefix: "/".into(),
                to: vec![url.parse().unwrap()],
                ..Proxy::default()
            }];
            assert_eq!(config.check().is_empty(), is_valid, "{url}");
        }
    }

    #[test]
    fn texts() {
        let mut list = Vec::new();
        for text in ["/a=b=http://a", "http://b:1", "/a=b=http://c"] {
            Proxy::add(&mut list, text).unwrap();
        }
        let found: Vec<_> = list.iter().map(|proxy| (&*proxy.prefix, proxy.to.len())).collect();
        assert_eq!(found, [("/a=b", 2), ("/", 1)]);
        assert_eq!(list[0].to[1].host, "c");
        for wrong in ["", "/api", "/api=", "api=http://a", "/api/=http://a", "/api=http://a/b"] {
            assert!(Proxy::add(&mut list, wrong).is_err(), "{wrong}");
        }
        let error = Proxy::add(&mut list, "/c").unwrap_err();
        assert_eq!(error, "a path without a server");
    }

    #[test]
    fn connections_take_descriptors() {
        let to = ["http://a", "http://b"].map(|url| url.parse().unwrap()).to_vec();
        let rule = Proxy { max_requests: 5, max_tunnels: 2, max_idle: 3, to, ..Proxy::default() };
        // Five requests, two tunnels, two workers with 3 unused connections each, and one health check.
        assert_eq!(rule.max_connections(2), 28);
        assert_eq!(rule.max_connections(7), 62);
        let many = Proxy { max_requests: 100, ..rule.clone() };
        // A worker keeps its part of the connections in use.
        assert_eq!(many.max_connections(2), (100 + 2 + 2 * 25 + 1) * 2);
        assert_eq!(Proxy { max_idle: 0, ..many }.max_connections(2), (100 + 2 + 1) * 2);
        assert_eq!(Proxy { max_requests: usize::MAX, ..rule }.max_connections(2), usize::MAX);
        let mut config = crate::Config::with_root(".");
        let before = config.reserved_files();
        let rule = Proxy { to: vec!["http://a".parse().unwrap()], ..Proxy::default() };
        config.hosts[0].proxies = vec![rule];
        assert!(config.reserved_files() > before, "they are reserved");
    }

    #[test]
    fn urls() {
        for (text, host, port, is_tls, authority) in [
            ("http://127.0.0.1:3000", "127.0.0.1", 3000, false, "127.0.0.1:3000"),
            ("http://app/", "app", 80, false, "app"),
            ("https://app/", "app", 443, true, "app"),
            ("https://app:80", "app", 80, true, "app:80"),
            ("http://[::1]:81", "::1", 81, false, "[::1]:81"),
            ("http://[::1]", "::1", 80, false, "[::1]"),
            ("h2c://app:50051", "app", 50051, false, "app:50051"),
            ("h2c://app", "app", 80, false, "app"),
            ("h2://app", "app", 443, true, "app"),
        ] {
            let upstream: Upstream = text.parse().unwrap();
            let found = (&*upstream.host, upstream.port, upstream.is_tls);
            assert_eq!(found, (host, port, is_tls), "{text}");
            assert_eq!(upstream.authority(), authority);
            assert_eq!(upstream.is_http2, text.starts_with("h2"), "{text}");
            let scheme = if is_tls { "https" } else { "http" };
            assert_eq!(upstream.http_url(), format!("{scheme}://{authority}"));
            assert_eq!(upstream.to_string().parse(), Ok(upstream));
        }
        for wrong in [
            "127.0.0.1:3000",
            "ftp://a",
            "http://",
            "http://a/b",
            "http://a:0",
            "http://a:x",
            "http://::1",
            "http://a b",
            "http://u@a",
            "http://[a]",
        ] {
            assert!(wrong.parse::<Upstream>().is_err(), "{wrong}");
        }
    }
}
