//! The servers that share the requests of some paths.

use std::sync::Arc;

use phalanx_http::path;
use phalanx_tls::Connector;

use crate::config::{Proxy, Upstream};
use crate::upstream::health::Health;
use crate::upstream::shared_limit::SharedLimit;

/// A compiled rule of the reverse proxy.
pub(crate) struct Group {
    pub(crate) rule: Proxy,
    pub(crate) members: Vec<Member>,
    /// Requests that wait for a server.
    pub(super) waiting: SharedLimit,
    authorities: Option<Vec<u8>>,
}

/// How servers with TLS are verified.
pub(crate) struct Trust {
    pub(crate) connector: Connector,
    /// Content of the file with the authorities; `None` for those of the system.
    pub(crate) authorities: Option<Vec<u8>>,
}

/// One of the servers.
pub(crate) struct Member {
    pub(crate) upstream: Upstream,
    /// Its `Host`.
    pub(crate) authority: String,
    pub(crate) health: Health,
    /// Requests in progress.
    pub(super) in_use: SharedLimit,
    /// Tunnels that do not count as requests in progress.
    pub(super) tunnels: SharedLimit,
    /// Set if the server uses TLS.
    pub(crate) connector: Option<Connector>,
}

impl Group {
    /// Compiles a rule for a server with this number of workers.
    ///
    /// # Panics
    /// If one of the servers speaks TLS, and there is no connector.
    pub(crate) fn new(rule: &Proxy, workers: usize, trust: Option<Trust>) -> Arc<Self> {
        let connector = |upstream: &Upstream| {
            let trust = trust.as_ref().expect("a connector for servers with TLS");
            let protocol: &[u8] = if upstream.is_http2 { b"h2" } else { b"http/1.1" };
            trust.connector.with_protocols(&[protocol])
        };
        let member = |upstream: &Upstream| Member {
            authority: upstream.authority(),
            upstream: upstream.clone(),
            health: Health::default(),
            in_use: SharedLimit::new(rule.max_requests, workers, 1),
            tunnels: SharedLimit::new(rule.max_tunnels, workers, 0),
            connector: upstream.is_tls.then(|| connector(upstream)),
        };
        let members = rule.to.iter().map(member).collect();
        Arc::new(Self {
            members,
            waiting: SharedLimit::new(rule.max_queue, workers, 0),
            rule: rule.clone(),
            authorities: trust.and_then(|trust| trust.authorities),
        })
    }

    /// Whether this group equals one compiled from `rule` and `trust`.
    pub(crate) fn is(&self, rule: &Proxy, trust: Option<&Trust>) -> bool {
        self.rule == *rule
            && self.authorities.as_ref() == trust.and_then(|trust| trust.authorities.as_ref())
    }

    /// Whether the rule applies to a resolved path without a leading slash.
    pub(crate) fn covers(&self, resolved: &[u8]) -> bool {
        let prefix = self.rule.prefix.trim_matches('/').as_bytes();
        let rest = resolved.strip_prefix(prefix);
        rest.is_some_and(|rest| prefix.is_empty() || rest.is_empty() || rest.starts_with(b"/"))
    }

    /// The path to forward for a request for `path`: as the client sends it, but with one leading slash. `None` if the
    /// rule does not apply.
    pub(crate) fn path<'a>(&self, path: &'a str) -> Option<&'a str> {
        let rest = path::below(path, &self.rule.prefix)?;
        let own = if self.rule.strip_prefix { rest } else { path };
        // A server could read a path that begins with two slashes as a host followed by a path.
        Some(match own.bytes().take_while(|byte| *byte == b'/').count() {
            0 => "/",
            slashes => &own[slashes - 1..],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_a_prefix() {
        let group = |prefix: &str, strip_prefix| {
            Group::new(&Proxy { prefix: prefix.into(), strip_prefix, ..Proxy::default() }, 1, None)
        };
        for (prefix, path, whole, stripped) in [
            ("/api", "/api", Some("/api"), Some("/")),
            ("/api", "/api/", Some("/api/"), Some("/")),
            ("/api", "/api//b//c", Some("/api//b//c"), Some("/b//c")),
            ("/api", "/api///", Some("/api///"), Some("/")),
            ("/", "//a", Some("/a"), Some("/a")),
            ("/api", "/api/a%2fb", Some("/api/a%2fb"), Some("/a%2fb")),
            ("/api", "/apis", None, None),
            ("/api", "/", None, None),
            ("/", "/", Some("/"), Some("/")),
            ("/", "/a", Some("/a"), Some("/a")),
            ("/", "*", None, None),
            // Other spellings of the prefix, as paths of files are read.
            ("/api", "/%61pi/a%20b", Some("/%61pi/a%20b"), Some("/a%20b")),
            ("/api", "//api/x", Some("/api/x"), Some("/x")),
            ("/api", "//api/api/admin", Some("/api/api/admin"), Some("/api/admin")),
            ("/", "///", Some("/"), Some("/")),
            ("/api", "/./api//x", Some("/./api//x"), Some("/x")),
            ("/api", "/%2e/%61%70%69", Some("/%2e/%61%70%69"), Some("/")),
            ("/api", "/api%2fx", None, None),
            ("/api", "/%2561pi/x", None, None),
        ] {
            assert_eq!(group(prefix, false).path(path), whole, "{prefix} {path}");
            assert_eq!(group(prefix, true).path(path), stripped, "{prefix} {path}");
        }
    }
}
