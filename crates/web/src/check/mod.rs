//! Semantic checks of a configuration.

mod unavailable;

use std::net::Ipv4Addr;

use phalanx_http::path;
use phalanx_service::duplicate_addresses;
use phalanx_tls::is_server_name;

use crate::config::{
    Acme, AcmeChallenge, Config, ConfigError, EXPECTED_PREFIX, HostConfig, Listen, Proxy, Scheme,
    Upstream, has_http3, is_prefix, is_target,
};
use crate::site::rules::Rules;

/// Maximum number of names in a certificate of Let's Encrypt.
const MAX_ACME_NAMES: usize = 100;

impl Config {
    /// Returns all semantic errors that can be found without opening a file.
    pub fn check(&self) -> Vec<ConfigError> {
        let mut errors = phalanx_config::check(self);
        let mut wrong =
            |key: String, message: String| errors.push(ConfigError::for_key(key, message));
        if self.listen.is_empty() {
            wrong("listen".into(), "expected at least one address".into());
        }
        let tls = self.listen.iter().any(Listen::is_tls);
        let has_certificate = |host: &HostConfig| host.tls.is_some() || self.is_automatic(host);
        if tls && !self.hosts.iter().any(has_certificate) {
            let message = "an address uses TLS, but no host has a certificate; set host.tls, or \
                        --tls-certificate and --tls-key, or acme and host.server-names";
            wrong("listen".into(), message.into());
        }
        let redirects = self.listen.iter().any(|listen| listen.scheme == Scheme::RedirectHttps);
        if redirects && self.tls_port().is_none() {
            let message = "an address redirects to TLS, but no address of the network uses TLS";
            wrong("listen".into(), message.into());
        }
        if self.http3 && !self.listen.iter().any(has_http3) {
            let message = "HTTP/3 needs an address with TLS; add https://ADDR:PORT to listen, without proxy+ and unix:";
            wrong("http3".into(), message.into());
        }
        if self.real_ip_from.is_empty() && self.listen.iter().any(|listen| listen.proxied) {
            let message = "an address expects PROXY headers, but no load balancer is trusted to send them; set \
                        real-ip-from";
            wrong("listen".into(), message.into());
        }
        for message in duplicate_addresses(&self.listen) {
            wrong("listen".into(), message);
        }
        if let Some(path) = self.health.as_ref().filter(|path| !path.starts_with('/')) {
            wrong(
                "health".into(),
                format!("found {path:?}, expected a path that starts with a slash"),
            );
        }
        if let Some(acme) = &self.acme {
            self.check_acme(acme, tls, &mut |key, message| {
                errors.push(ConfigError::for_key(key, message));
            });
        }
        errors.extend(self.runtime.check());
        // Compiling the rules of hosts would repeat errors about missing values.
        if !errors.iter().any(|error| error.key().starts_with("host")) {
            self.check_hosts(&mut |key, message| errors.push(ConfigError::for_key(key, message)));
        }
        errors
    }

    fn check_acme(&self, acme: &Acme, tls: bool, wrong: &mut impl FnMut(String, String)) {
        if !tls {
            wrong("acme".into(), "no address uses TLS; listen on https://ADDR:443".into());
        }
        if !acme.accept_terms {
            let message = format!(
                "the authority at {} issues certificates only to those who accept its terms of service; read them, and \
                 set acme.accept-terms",
                acme.directory
            );
            wrong("acme.accept-terms".into(), message);
        }
        if !acme.directory.starts_with("https://") {
            let message = format!("found {:?}, expected a URL with https://", acme.directory);
            wrong("acme.directory".into(), message);
        }
        if acme.external_account.is_some() != acme.external_key.is_some() {
            let message = "an account outside of ACME has an identifier and a key; set external-account and external-key";
            wrong("acme.external-account".into(), message.into());
        }
        let has_plain = self.listen.iter().any(|listen| !listen.is_tls());
        if acme.challenge == AcmeChallenge::Http01 && !has_plain {
            let message =
                "http-01 needs an address without TLS, such as redirect-https://0.0.0.0:80";
            wrong("acme.challenge".into(), message.into());
        }
        if !self.hosts.iter().any(|host| self.is_automatic(host)) {
            let message = "no host has server-names, acme = true, and no host.tls";
            wrong("acme".into(), message.into());
        }
        for (n, host) in self.hosts.iter().enumerate().filter(|(_, host)| self.is_automatic(host)) {
            let wrong = &mut |message| wrong(format!("host[{n}].server-names"), message);
            if host.server_names.len() > MAX_ACME_NAMES {
                let found = host.server_names.len();
                wrong(format!(
                    "found {found} names, but a certificate has at most {MAX_ACME_NAMES}"
                ));
            }
            let is_domain = |name: &String| {
                !name.starts_with("*.")
                    && !name.starts_with('[')
                    && name.parse::<Ipv4Addr>().is_err()
            };
            for name in host.server_names.iter().filter(|name| !is_domain(name)) {
                wrong(format!(
                    "{name:?} cannot get a certificate by HTTP-01 or TLS-ALPN-01, which are for domain names; set host.tls, \
                     or host.acme = false"
                ));
            }
        }
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
                        format!("found {name:?}, {expected}, without a port or a dot at the end"),
                    );
                }
                if let Some(other) = seen.insert(name.to_ascii_lowercase(), n) {
                    let message = match name.is_empty() {
                        true => "a host without names is the default host, but so is".to_owned(),
                        false => format!("{name:?} is also a name of"),
                    };
                    wrong(key("server-names"), format!("{message} host {}", other + 1));
                }
            }
            for (n, proxy) in host.proxies.iter().enumerate() {
                if !is_prefix(&proxy.prefix) {
                    let message = format!("found {:?}, {EXPECTED_PREFIX}", proxy.prefix);
                    wrong(key(&format!("proxy[{n}].prefix")), message);
                }
                let is_named = |server: &&Upstream| !server.is_tls || is_server_name(&server.host);
                for server in proxy.to.iter().filter(|server| !is_named(server)) {
                    let message = format!("found {:?}, which no certificate can name", server.host);
                    wrong(key(&format!("proxy[{n}].to")), message);
                }
                // The first rule that matches applies.
                let is_shadowing =
                    |other: &&Proxy| path::below(&proxy.prefix, &other.prefix).is_some();
                if let Some(other) = host.proxies[..n].iter().find(is_shadowing) {
                    let message = format!(
                        "no request for {:?} reaches this rule, because an earlier one is for {:?}; put this one first, or add its servers to that one",
                        proxy.prefix, other.prefix
                    );
                    wrong(key(&format!("proxy[{n}].prefix")), message);
                }
                if proxy.authorities.is_some() && !proxy.to.iter().any(|server| server.is_tls) {
                    let message = "no server of `to` speaks TLS; name it with https:// or h2://";
                    wrong(key(&format!("proxy[{n}].ca")), message.into());
                }
                if let Some(check) = proxy.health.as_ref().filter(|check| !is_target(&check.path)) {
                    let expected =
                        "expected a path such as \"/health\", with special characters encoded";
                    let message = format!("found {:?}, {expected}", check.path);
                    wrong(key(&format!("proxy[{n}].health.path")), message);
                }
            }
            if let Err(errors) = Rules::new(host) {
                for (name, message) in errors {
                    wrong(key(&name), message);
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
        // Requested names are compared without a trailing dot.
        None => {
            !name.is_empty()
                && !name.starts_with('.')
                && !name.ends_with('.')
                && name.chars().all(plain)
        }
    }
}
