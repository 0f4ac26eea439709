//! Semantic checks of a configuration.

use phalanx_config::ConfigError;
use phalanx_service::duplicate_addresses;

use crate::config::{Config, MAX_DURABLE_PACKET};
use crate::listen::Listen;

impl Config {
    /// Returns all semantic errors that can be found without opening a file.
    pub fn check(&self) -> Vec<ConfigError> {
        let mut errors = Vec::new();
        let mut wrong = |is: bool, key: &str, what: &str| {
            if is {
                errors.push(ConfigError::of(key, what));
            }
        };
        let Self { listen, security, limits, .. } = self;
        wrong(listen.is_empty(), "listen", "no listen address is configured");
        let named = security.tls.as_ref().is_some_and(|tls| tls.client_authorities.is_some());
        for listen in listen {
            let address = listen.address;
            let public = !address.ip().is_loopback();
            let open = security.password_file.is_none()
                && !security.allow_anonymous
                && !(listen.is_tls() && named);
            let what = format!(
                "{address} is reachable from other machines, and anyone could connect; set --password-file, listen \
                 on 127.0.0.1, or set --allow-anonymous"
            );
            wrong(public && open, "listen", &what);
        }
        for what in duplicate_addresses(listen) {
            wrong(true, "listen", &what);
        }
        for origin in &security.allowed_origins {
            // The origin that a browser sends (RFC 6454 §6.2) has no path.
            let host = origin.split_once("://").map_or("", |(_, host)| host);
            let what = format!(
                "found {origin:?}, expected an origin such as \"https://app.example.org\", or \"*\" for all"
            );
            wrong(
                origin != "*" && (host.is_empty() || host.contains('/')),
                "allowed-origins",
                &what,
            );
        }
        match &security.tls {
            Some(tls) => {
                let none = tls.certificate.as_os_str().is_empty();
                wrong(none, "tls", "`certificate` is missing; set --tls-certificate, too");
                let none = tls.key.as_os_str().is_empty();
                wrong(none, "tls", "`key` is missing; set --tls-key, too");
            }
            None => wrong(
                listen.iter().any(Listen::is_tls),
                "listen",
                "an address uses TLS, but there is no certificate; set --tls-certificate and --tls-key",
            ),
        }
        let both = self.ephemeral && self.persistence_dir.is_some();
        wrong(both, "ephemeral", "excludes `persistence-dir`; remove one of the two");
        // A message and its deliveries form one journal entry, whose size is limited.
        let most = if self.persistence_dir.is_some() {
            MAX_DURABLE_PACKET
        } else {
            phalanx_mqtt::Frame::MAX_BODY
        };
        let what = format!("found {}, expected 128 to {most}", limits.packet_size);
        wrong(!(128..=most).contains(&limits.packet_size), "max-packet-size", &what);
        let least = "found 0, which would reject all clients; expected at least 1";
        wrong(limits.connections == 0, "max-connections", least);
        wrong(limits.sessions == 0, "max-sessions", least);
        let least = "found 0, which would reject all messages; expected at least 1";
        wrong(limits.receive_maximum == 0, "receive-maximum", least);
        let least = "found 0, which would block all messages; expected at least 1";
        wrong(limits.inflight_deliveries == 0, "max-inflight-deliveries", least);
        let least = "found 0, expected at least 1, or false for no limit";
        for (key, bound) in [
            ("max-connections-per-address", limits.per_address),
            ("max-connection-rate", limits.connection_rate),
            ("max-message-rate", limits.message_rate),
        ] {
            wrong(bound == Some(0), key, least);
        }
        for (key, time) in [("connect-timeout", limits.connect), ("send-timeout", limits.send)] {
            wrong(time.is_zero(), key, "found 0, which would disconnect all clients");
        }
        errors.extend(self.runtime.check());
        errors
    }
}
