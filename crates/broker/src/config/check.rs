//! Semantic checks of a configuration.

use phalanx_config::ConfigError;
use phalanx_service::duplicate_addresses;

use crate::config::{AuthHttp, Config, JwtConfig, MAX_DURABLE_PACKET};
use crate::listen::Listen;

impl Config {
    /// Returns all semantic errors that can be found without opening a file.
    pub fn check(&self) -> Vec<ConfigError> {
        let mut errors = phalanx_config::check(self);
        let mut error_if = |is: bool, key: &str, message: &str| {
            if is {
                errors.push(ConfigError::for_key(key, message));
            }
        };
        let Self { listen, security, limits, .. } = self;
        error_if(listen.is_empty(), "listen", "no listen address is configured");
        let named = security.tls.as_ref().is_some_and(|tls| tls.client_authorities.is_some());
        let revoked = security.tls.as_ref().is_some_and(|tls| tls.client_revoked.is_some());
        let message =
            "revocation lists need the authorities that issued the certificates; set tls.client-ca";
        error_if(revoked && !named, "tls.client-crl", message);
        for listen in listen {
            let address = listen.address;
            let public = !address.is_local();
            let security = &self.at(address).security;
            let named = security.tls.as_ref().is_some_and(|tls| tls.client_authorities.is_some());
            let place =
                self.listeners.iter().position(|listener| listener.address.address == address);
            let own = place.map(|place| &self.listeners[place]);
            let closed = own.is_some_and(|listener| listener.allow_anonymous == Some(false))
                || security.has_logins()
                || security.allow_anonymous
                || listen.is_tls() && named;
            if !closed && self.with_all_logins(address).security.has_logins() {
                let key =
                    match place.filter(|_| own.is_some_and(|listener| listener.logins.is_some())) {
                        Some(place) => format!("listener[{place}].logins"),
                        None => "logins".into(),
                    };
                let message = format!(
                    "none of these ways to log in is configured for {address}, and anyone could connect; add one that \
                     is, or set allow-anonymous"
                );
                error_if(true, &key, &message);
                continue;
            }
            let message = format!(
                "{address} is reachable from other machines, and anyone could connect; set --password-file, jwt or \
                 auth-http, listen on 127.0.0.1, or set --allow-anonymous"
            );
            error_if(public && !closed, "listen", &message);
        }
        for message in duplicate_addresses(listen) {
            error_if(true, "listen", &message);
        }
        for message in security.allowed_origins.iter().filter_map(|origin| check_origin(origin)) {
            error_if(true, "allowed-origins", &message);
        }
        let both = security.has_login_service() && security.password_file.is_some();
        error_if(both, "auth-http.login-url", "excludes `password-file`; remove one of the two");
        let has_none =
            |listen: &Listen| listen.is_tls() && self.at(listen.address).security.tls.is_none();
        let tls = listen.iter().any(has_none);
        let message =
            "an address uses TLS, but there is no certificate; set tls.certificate and tls.key";
        error_if(tls, "listen", message);
        let both = self.ephemeral && self.persistence_dir.is_some();
        error_if(both, "ephemeral", "excludes `persistence-dir`; remove one of the two");
        // A message and its deliveries form one journal entry, whose size is limited.
        let max = MAX_DURABLE_PACKET;
        let message =
            format!("found {}, expected 128 to {max} with persistence-dir", limits.packet_size);
        let range = 128..=phalanx_mqtt::Frame::MAX_BODY;
        let large = range.contains(&limits.packet_size) && limits.packet_size > max;
        error_if(self.persistence_dir.is_some() && large, "max-packet-size", &message);
        let keeps = self.cluster.keep_sessions;
        let message = "needs `cluster`: the NATS servers";
        error_if(keeps && !self.cluster.is_on(), "cluster-keep-sessions", message);
        let message = "needs `persistence-dir`: a session is kept on the disk and in NATS";
        error_if(keeps && self.persistence_dir.is_none(), "cluster-keep-sessions", message);
        errors.extend(security.jwt.iter().flat_map(JwtConfig::check));
        errors.extend(security.auth_http.iter().flat_map(AuthHttp::check));
        errors.extend(self.check_listeners());
        errors.extend(self.check_bridges());
        errors.extend(self.cluster.check());
        errors.extend(self.runtime.check());
        errors
    }
}

/// The error in an origin, if it has one. The origin that a browser sends (RFC 6454 §6.2) has no path.
pub(super) fn check_origin(origin: &str) -> Option<String> {
    let host = origin.split_once("://").map_or("", |(_, host)| host);
    let is_wrong = origin != "*" && (host.is_empty() || host.contains('/'));
    is_wrong.then(|| {
        format!("found {origin:?}, expected an origin such as \"https://app.example.org\", or \"*\" for all")
    })
}
