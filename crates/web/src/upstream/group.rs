//! The servers that share the requests of some paths.

use std::sync::Arc;

use phalanx_tls::Connector;

use crate::config::{Proxy, Upstream};
use crate::upstream::health::Health;

/// A compiled rule of the reverse proxy.
pub(crate) struct Group {
    pub(crate) rule: Proxy,
    pub(crate) members: Vec<Member>,
    /// Requests in progress at each server, and waiting ones, of one worker.
    pub(crate) max_requests: usize,
    pub(crate) max_queue: usize,
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
    /// Set if it speaks TLS.
    pub(crate) connector: Option<Connector>,
}

impl Group {
    /// Compiles a rule for a server with this number of workers.
    ///
    /// # Panics
    /// If one of the servers speaks TLS, and there is no connector.
    pub(crate) fn new(rule: &Proxy, workers: usize, trust: Option<Trust>) -> Arc<Self> {
        let connector = trust.as_ref().map(|trust| &trust.connector);
        let member = |upstream: &Upstream| Member {
            authority: upstream.authority(),
            upstream: upstream.clone(),
            health: Health::default(),
            connector: upstream
                .is_tls
                .then(|| connector.expect("a connector for servers with TLS").clone()),
        };
        let members = rule.to.iter().map(member).collect();
        Arc::new(Self {
            members,
            max_requests: rule.max_requests.div_ceil(workers.max(1)),
            max_queue: rule.max_queue.div_ceil(workers.max(1)),
            rule: rule.clone(),
            authorities: trust.and_then(|trust| trust.authorities),
        })
    }

    /// Whether this group equals one compiled from `rule` and `trust`.
    pub(crate) fn is(&self, rule: &Proxy, trust: Option<&Trust>) -> bool {
        self.rule == *rule
            && self.authorities.as_ref() == trust.and_then(|trust| trust.authorities.as_ref())
    }

    /// The path for the servers of a request for `path`, as the client sends it. `None` if the rule does not apply.
    pub(crate) fn path<'a>(&self, path: &'a str) -> Option<&'a str> {
        let rest = match &self.rule.prefix[..] {
            "/" => path.starts_with('/').then_some(path)?,
            prefix => path.strip_prefix(prefix)?,
        };
        match rest.is_empty() || rest.starts_with('/') {
            true if !self.rule.strip_prefix => Some(path),
            true if rest.is_empty() => Some("/"),
            // A path that begins with two slashes could be read as a host.
            true => Some(&rest[rest.bytes().take_while(|byte| *byte == b'/').count() - 1..]),
            false => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_a_prefix() {
        let group = |prefix: &str, strip_prefix| {
            Group::new(&Proxy { prefix: prefix.into(), strip_prefix, ..Proxy::new() }, 1, None)
        };
        for (prefix, path, whole, stripped) in [
            ("/api", "/api", Some("/api"), Some("/")),
            ("/api", "/api/", Some("/api/"), Some("/")),
            ("/api", "/api//b//c", Some("/api//b//c"), Some("/b//c")),
            ("/api", "/api///", Some("/api///"), Some("/")),
            ("/", "//a", Some("//a"), Some("/a")),
            ("/api", "/api/a%2fb", Some("/api/a%2fb"), Some("/a%2fb")),
            ("/api", "/apis", None, None),
            ("/api", "/", None, None),
            ("/", "/", Some("/"), Some("/")),
            ("/", "/a", Some("/a"), Some("/a")),
            ("/", "*", None, None),
        ] {
            assert_eq!(group(prefix, false).path(path), whole, "{prefix} {path}");
            assert_eq!(group(prefix, true).path(path), stripped, "{prefix} {path}");
        }
    }
}
