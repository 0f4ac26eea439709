//! Semantic checks of a configuration.

use phalanx_service::duplicate_addresses;

use crate::config::{Config, ConfigError, Listen, Scheme};
use crate::site::rules::Rules;

impl Config {
    /// Returns all semantic errors that can be found without opening a file.
    pub fn check(&self) -> Vec<ConfigError> {
        let mut errors = Vec::new();
        let mut wrong = |key: String, what: String| errors.push(ConfigError::of(key, what));
        if self.listen.is_empty() {
            wrong("listen".into(), "expected at least one address".into());
        }
        let tls = self.listen.iter().any(Listen::is_tls);
        if tls && self.hosts.iter().all(|host| host.tls.is_none()) {
            let what = "an address uses TLS, but no host has a certificate; set host.tls, or \
                        --tls-certificate and --tls-key";
            wrong("listen".into(), what.into());
        }
        if !tls && self.listen.iter().any(|listen| listen.scheme == Scheme::RedirectHttps) {
            let what = "an address redirects to TLS, but no address uses TLS";
            wrong("listen".into(), what.into());
        }
        for what in duplicate_addresses(&self.listen) {
            wrong("listen".into(), what);
        }
        let limits = &self.limits;
        for (key, bound) in [
            ("max-connections", self.max_connections),
            ("limits.request-line", limits.request_line),
            ("limits.head", limits.head),
            ("limits.headers", limits.headers),
        ] {
            if bound == 0 {
                wrong(key.into(), "found 0, expected at least 1".into());
            }
        }
        let address = &self.per_address;
        if address.connections == Some(0) {
            let what = "found 0, expected at least 1, or false for no limit";
            wrong("per-address.connections".into(), what.into());
        }
        if address.requests_per_second == Some(0.0) {
            let what = "found 0, expected more than 0, or false for no limit";
            wrong("per-address.requests-per-second".into(), what.into());
        }
        for (name, time) in [
            ("request", self.timeouts.request),
            ("handshake", self.timeouts.handshake),
            ("body", self.timeouts.body),
            ("idle", self.timeouts.idle),
            ("send", self.timeouts.send),
        ] {
            if time.is_zero() {
                wrong(format!("timeouts.{name}"), "found 0, expected a positive time".into());
            }
        }
        if let Some(path) = self.health.as_ref().filter(|path| !path.starts_with('/')) {
            wrong(
                "health".into(),
                format!("found {path:?}, expected a path that starts with a slash"),
            );
        }
        self.check_hosts(&mut wrong);
        errors.extend(self.runtime.check());
        errors
    }

    fn check_hosts(&self, wrong: &mut impl FnMut(String, String)) {
        if self.hosts.is_empty() {
            wrong("host".into(), "expected at least one host".into());
        }
        let mut seen = std::collections::HashMap::new();
        for (n, host) in self.hosts.iter().enumerate() {
            let key = |name: &str| format!("host[{n}].{name}");
            let default = [String::new()];
            let names =
                if host.server_names.is_empty() { &default[..] } else { &host.server_names };
            for name in names {
                if !name.is_empty() && !is_name(name) {
                    let expected = "expected a host such as \"example.org\" or \"*.example.org\"";
                    wrong(
                        key("server-names"),
                        format!("found {name:?}, {expected}, without a port"),
                    );
                }
                if let Some(other) = seen.insert(name.to_ascii_lowercase(), n) {
                    let what = match name.is_empty() {
                        true => "a host without names is the default host, but so is".to_owned(),
                        false => format!("{name:?} is also a name of"),
                    };
                    wrong(key("server-names"), format!("{what} host {}", other + 1));
                }
            }
            if let Err(errors) = Rules::new(host) {
                for (name, what) in errors {
                    wrong(key(&name), what);
                }
            }
        }
    }
}

/// Whether `name` is a host name such as `example.org`, `*.example.org`, `127.0.0.1` or `[::1]`.
fn is_name(name: &str) -> bool {
    let name = name.strip_prefix("*.").unwrap_or(name);
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    match name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => !name.is_empty() && !name.starts_with('.') && name.chars().all(plain),
    }
}
