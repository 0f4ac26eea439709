//! Settings of one listen address. They replace the settings of the broker.

use std::collections::BTreeSet;
use std::path::PathBuf;

use phalanx_config::{ConfigError, Size, choices, settings};
use phalanx_mqtt::Version;
use phalanx_service::ListenAddress;

use crate::config::check::check_origin;
use crate::config::values::OrOfBroker;
use crate::config::{Config, MAX_DURABLE_PACKET, Security, Tls};
use crate::listen::{Listen, Scheme};

settings! {
    /// Settings of one listen address. A setting that is absent is that of the broker.
    #[derive(Clone, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct ListenerConfig {
        @section "Settings of one address";
        /// The address, one of [`Config::listen`].
        pub address: Listen = Scheme::Mqtt.at(([127, 0, 0, 1], 0))
            => key("address",
                "the address, as in `listen`; the following keys replace those of the broker at this address");
        /// Concurrent connections of the address; they also count for
        /// [`Limits::connections`](crate::Limits::connections). Beyond it, connections are rejected like those beyond
        /// that limit.
        pub connections: Option<usize>
            => range("max-connections", Some(1)..,
                "connections of this address; they also count for max-connections of the broker");
        /// Like [`Limits::packet_size`](crate::Limits::packet_size).
        pub packet_size: Option<usize>
            => key_as::<OrOfBroker<Size>>("max-packet-size", "size of a packet from a client");
        /// Like [`Security::protocols`](crate::Security::protocols).
        pub protocols: Option<Vec<Protocol>>
            => key_as::<OrOfBroker<Vec<Protocol>>>("protocols", "accepted versions of MQTT");
        /// Like [`Security::logins`](crate::Security::logins).
        pub logins: Option<Vec<LoginMethod>>
            => key_as::<OrOfBroker<Vec<LoginMethod>>>("logins", "accepted ways to log in");
        /// Like [`Security::password_file`](crate::Security::password_file).
        pub password_file: Option<PathBuf>
            => key_as::<OrOfBroker<PathBuf>>("password-file",
                "users of this address, in place of password-file or auth-http of the broker");
        /// Like [`Security::allow_anonymous`](crate::Security::allow_anonymous), but false rejects clients without a
        /// user name also if no way to log in is configured.
        pub allow_anonymous: Option<bool>
            => key_as::<OrOfBroker<bool>>("allow-anonymous", "accept clients without a user name");
        /// Like [`Security::certificate_user`](crate::Security::certificate_user).
        pub certificate_user: Option<bool>
            => key_as::<OrOfBroker<bool>>("certificate-user",
                "the common name of a client's certificate is its user name");
        /// Like [`Security::user_as_client_id`](crate::Security::user_as_client_id).
        pub user_as_client_id: Option<bool>
            => key_as::<OrOfBroker<bool>>("user-as-client-id", "replace client identifiers by user names");
        /// Like [`Config::content_filters`].
        pub content_filters: Option<bool>
            => key_as::<OrOfBroker<bool>>("content-filters", "subscriptions may filter messages by content");
        /// Like [`Security::allowed_origins`](crate::Security::allowed_origins).
        pub allowed_origins: Option<Vec<String>>
            => key_as::<OrOfBroker<Vec<String>>>("allowed-origins",
                "origins of web pages whose scripts may connect by WebSocket");
        /// The certificate of the address, and the authorities of its clients, instead of all of
        /// [`Security::tls`](crate::Security::tls).
        pub tls: Option<Tls>
            => optional("tls", "certificate of this address, and authorities of its clients");
    }
}

/// A version of MQTT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// MQTT 5.
    V5,
    /// MQTT 3.1.1.
    V3,
}

choices! {
    Protocol as Protocol: Protocol::V5 = "5", Protocol::V3 = "3.1.1";
}

impl Protocol {
    /// The protocol of a CONNECT.
    pub(crate) fn of(version: Version) -> Self {
        match version {
            Version::V5 => Self::V5,
            Version::V3 => Self::V3,
        }
    }
}

/// A way to log in, apart from client certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginMethod {
    /// The password file: passwords, and SCRAM.
    Password,
    /// JSON Web Tokens.
    Jwt,
    /// The service of `auth-http`.
    Http,
}

choices! {
    LoginMethod as LoginMethod:
        LoginMethod::Password = "password", LoginMethod::Jwt = "jwt", LoginMethod::Http = "http";
}

impl LoginMethod {
    /// All methods.
    pub const ALL: [Self; 3] = [Self::Password, Self::Jwt, Self::Http];
}

impl ListenerConfig {
    /// No settings.
    pub fn new(address: Listen) -> Self {
        Self { address, ..Self::default() }
    }

    /// The configuration of the broker with these settings.
    fn over_running(&self, config: &Config) -> Config {
        let Self { connections: _, address: _, packet_size, protocols, logins, .. } = self.clone();
        let Self { password_file, allow_anonymous, certificate_user, user_as_client_id, .. } =
            self.clone();
        let Self { content_filters, allowed_origins, tls, .. } = self.clone();
        let mut config = config.clone();
        set(&mut config.content_filters, content_filters);
        let (limits, security) = (&mut config.limits, &mut config.security);
        limits.packet_size = packet_size.unwrap_or(limits.packet_size);
        set(&mut security.protocols, protocols);
        set(&mut security.logins, logins);
        set(&mut security.allow_anonymous, allow_anonymous);
        set(&mut security.certificate_user, certificate_user);
        set(&mut security.user_as_client_id, user_as_client_id);
        set(&mut security.allowed_origins, allowed_origins);
        if password_file.is_some() {
            security.password_file = password_file;
            security.without_login_service();
        }
        if tls.is_some() {
            security.tls = tls;
        }
        config
    }
}

fn set<T>(value: &mut T, new: Option<T>) {
    if let Some(new) = new {
        *value = new;
    }
}

impl Config {
    /// The settings of an address, if it has some.
    pub(crate) fn listener(&self, address: ListenAddress) -> Option<&ListenerConfig> {
        self.listeners.iter().find(|listener| listener.address.address == address)
    }

    /// The configuration that applies at an address.
    pub(crate) fn at(&self, address: ListenAddress) -> Self {
        let mut config = self.with_all_logins(address);
        config.security.keep_logins();
        config
    }

    /// The configuration that would apply at an address if it accepted all ways to log in that are configured.
    pub(super) fn with_all_logins(&self, address: ListenAddress) -> Self {
        self.listener(address).map_or_else(|| self.clone(), |listener| listener.over_running(self))
    }

    /// The configuration that applies at addresses without settings of their own.
    pub(crate) fn at_other_addresses(&self) -> Self {
        let mut config = self.clone();
        config.security.keep_logins();
        config
    }

    /// The certificates of the broker, and those of single addresses.
    pub(crate) fn tls_profiles(&self) -> impl Iterator<Item = (Option<ListenAddress>, &Tls)> {
        let of_listeners = self.listeners.iter();
        let of_listeners = of_listeners
            .filter_map(|listener| Some((Some(listener.address.address), listener.tls.as_ref()?)));
        self.security.tls.iter().map(|tls| (None, tls)).chain(of_listeners)
    }

    /// Checks that the settings of addresses can follow those of `running`, as a reload requires.
    pub(crate) fn check_listeners_follow(&self, running: &Self) -> Result<(), ConfigError> {
        let error = |message: String| Err(ConfigError::for_key("listener", message));
        for listener in &self.listeners {
            let before =
                running.listener(listener.address.address).and_then(|before| before.tls.as_ref());
            if listener.tls.as_ref() != before {
                let address = listener.address;
                return error(format!(
                    "`tls` of {address} differs from that of the start; restart to apply"
                ));
            }
        }
        let removed = |listener: &&ListenerConfig| {
            listener.tls.is_some() && self.listener(listener.address.address).is_none()
        };
        if let Some(listener) = running.listeners.iter().find(removed)
            && self.listen.contains(&listener.address)
        {
            return error(format!(
                "`tls` of {} is in use until a restart; restart to apply",
                listener.address
            ));
        }
        if !self.password_files().is_empty() && running.password_files().is_empty() {
            return error("`password-file` is used after a restart only; restart to apply".into());
        }
        Ok(())
    }

    /// The password files of the broker and of all addresses.
    pub(crate) fn password_files(&self) -> BTreeSet<&PathBuf> {
        let of_listeners =
            self.listeners.iter().filter_map(|listener| listener.password_file.as_ref());
        self.security.password_file.iter().chain(of_listeners).collect()
    }

    /// Errors in the settings of addresses.
    pub(super) fn check_listeners(&self) -> Vec<ConfigError> {
        let mut errors = Vec::new();
        let mut add_error = |n: usize, key: &str, message: &str| {
            errors.push(ConfigError::for_key(format!("listener[{n}].{key}"), message));
        };
        for (n, listener) in self.listeners.iter().enumerate() {
            let address = listener.address;
            if !self.listen.contains(&address) {
                let message = format!("{address} is not an address in `listen`; add it there");
                add_error(n, "address", &message);
            }
            let same = |listen: &&Listen| listen.address == address.address;
            if self.listen.iter().filter(same).count() > 1 {
                add_error(n, "address", &format!("{address} is more than one address in `listen`"));
            }
            if self.listeners[..n].iter().any(|other| other.address.address == address.address) {
                add_error(n, "address", &format!("{address} has settings already"));
            }
            let (max, condition) = match self.persistence_dir {
                Some(_) => (MAX_DURABLE_PACKET, " with persistence-dir"),
                None => (phalanx_mqtt::Frame::MAX_BODY, ""),
            };
            if let Some(size) = listener.packet_size.filter(|size| !(128..=max).contains(size)) {
                let message = format!("found {size}, expected 128 to {max}{condition}");
                add_error(n, "max-packet-size", &message);
            }
            for message in
                listener.allowed_origins.iter().flatten().filter_map(|origin| check_origin(origin))
            {
                add_error(n, "allowed-origins", &message);
            }
            let tls = listener.tls.as_ref();
            if tls.is_some() && !address.is_tls() {
                add_error(n, "tls", &format!("{address} does not use TLS; use mqtts or wss"));
            }
            if tls
                .is_some_and(|tls| tls.client_revoked.is_some() && tls.client_authorities.is_none())
            {
                let message = "revocation lists need the authorities that issued the certificates; set client-ca";
                add_error(n, "tls.client-crl", message);
            }
        }
        errors
    }
}

impl Security {
    /// Removes the ways to log in that are not accepted.
    fn keep_logins(&mut self) {
        let Self { logins, password_file, jwt, .. } = self;
        let accepts = |method| logins.contains(&method);
        *password_file = password_file.take().filter(|_| accepts(LoginMethod::Password));
        *jwt = jwt.take().filter(|_| accepts(LoginMethod::Jwt));
        if !accepts(LoginMethod::Http) {
            self.without_login_service();
        }
    }

    /// The service still decides about topics.
    fn without_login_service(&mut self) {
        if let Some(auth_http) = &mut self.auth_http {
            auth_http.login_url = None;
        }
    }
}
