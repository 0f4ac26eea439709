//! Host selection: exact names, then the longest matching wildcard, then the default host.

use std::collections::HashMap;

use crate::config::{Config, UnknownHost};

/// Maps the authority of a request to the index of a host.
pub(crate) struct Names {
    exact: HashMap<Box<str>, usize>,
    /// `.example.org` for `*.example.org`, longest first.
    suffixes: Vec<(Box<str>, usize)>,
    unknown: Option<usize>,
}

/// Longest name in the DNS (RFC 1035 §2.3.4); longer names are not looked up.
const MAX_NAME_BYTES: usize = 255;

impl Names {
    pub(crate) fn new(config: &Config) -> Self {
        let default = config.hosts.iter().position(|host| host.server_names.is_empty());
        let unknown = default.or(match config.unknown_host {
            UnknownHost::First => Some(0),
            UnknownHost::NotFound | UnknownHost::Misdirected => None,
        });
        let mut names = Self { exact: HashMap::new(), suffixes: Vec::new(), unknown };
        for (index, host) in config.hosts.iter().enumerate() {
            for name in &host.server_names {
                let name = name.to_ascii_lowercase();
                match name.strip_prefix('*') {
                    Some(suffix) => names.suffixes.push((suffix.into(), index)),
                    None => _ = names.exact.insert(name.into(), index),
                }
            }
        }
        names.suffixes.sort_by_key(|(suffix, _)| std::cmp::Reverse(suffix.len()));
        names
    }

    /// Finds the host for `authority`, ignoring the port, case, and a trailing dot.
    #[inline]
    pub(crate) fn find(&self, authority: Option<&str>) -> Option<usize> {
        if self.exact.is_empty() && self.suffixes.is_empty() {
            return self.unknown;
        }
        authority.and_then(|authority| self.search(authority)).or(self.unknown)
    }

    /// Whether `authority` is a configured name. The default host has none.
    pub(crate) fn has(&self, authority: &str) -> bool {
        self.search(authority).is_some()
    }

    fn search(&self, authority: &str) -> Option<usize> {
        let name = without_port(authority);
        let name = name.strip_suffix('.').unwrap_or(name);
        let mut lower = [0; MAX_NAME_BYTES];
        let lower = lower.get_mut(..name.len())?;
        lower.copy_from_slice(name.as_bytes());
        lower.make_ascii_lowercase();
        let name = str::from_utf8(lower).ok()?;
        self.exact.get(name).copied().or_else(|| {
            let matches = |suffix: &str| name.len() > suffix.len() && name.ends_with(suffix);
            self.suffixes.iter().find(|(suffix, _)| matches(suffix)).map(|(_, index)| *index)
        })
    }
}

/// Removes the port from `uri-host [ ":" port ]`; an IPv6 address is in brackets.
pub(crate) fn without_port(authority: &str) -> &str {
    let end = authority.rfind(']').map_or(0, |at| at + 1);
    authority[end..].find(':').map_or(authority, |at| &authority[..end + at])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::HostConfig;

    fn config(hosts: &[&[&str]], unknown_host: UnknownHost) -> Config {
        let hosts = hosts.iter().map(|names| HostConfig {
            server_names: names.iter().map(|name| (*name).to_owned()).collect(),
            ..HostConfig::new("/")
        });
        Config { hosts: hosts.collect(), unknown_host, ..Config::new() }
    }

    #[test]
    fn hosts_are_found_by_their_names() {
        let hosts: &[&[&str]] =
            &[&["a.example", "[::1]"], &[], &["*.a.example", "B.example"], &["*.deep.a.example"]];
        let names = Names::new(&config(hosts, UnknownHost::First));
        // (authority, host, reason)
        let table: &[(Option<&str>, usize, &str)] = &[
            (Some("a.example"), 0, "exact"),
            (Some("A.Example:8080"), 0, "neither case nor port matter"),
            (Some("a.example."), 0, "the root of the DNS"),
            (Some("a.example.:80"), 0, "with a port behind it"),
            (Some("[::1]:80"), 0, "an address"),
            (Some("[::1]"), 0, "without a port"),
            (Some("b.example"), 2, "configured in capitals"),
            (Some("x.a.example"), 2, "wildcard"),
            (Some("x.y.a.example"), 2, "of any depth"),
            (Some("x.deep.a.example"), 3, "the longest wildcard"),
            (Some("deep.a.example"), 2, "a wildcard is not the name itself"),
            (Some("nota.example"), 1, "the wildcard begins at a dot"),
            (Some("other"), 1, "the default"),
            (None, 1, "HTTP/1.0 may have none"),
        ];
        for (authority, wanted, reason) in table {
            assert_eq!(names.find(*authority), Some(*wanted), "{authority:?}: {reason}");
        }
        let long = "a".repeat(300);
        assert_eq!(names.find(Some(&long)), Some(1));
    }

    #[test]
    fn unknown_hosts() {
        let find = |hosts, unknown| Names::new(&config(hosts, unknown)).find(Some("other"));
        assert_eq!(find(&[&["a"], &["b"]], UnknownHost::First), Some(0));
        assert_eq!(find(&[&["a"], &["b"]], UnknownHost::Misdirected), None);
        assert_eq!(find(&[&["a"], &["b"]], UnknownHost::NotFound), None);
        assert_eq!(find(&[&["a"], &[]], UnknownHost::NotFound), Some(1), "there is a default");
    }
}
