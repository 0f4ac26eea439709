//! Listeners of mosquitto, their settings and their TLS.

use std::net::IpAddr;

use phalanx_broker::{Config, Listen, ListenerConfig, Protocol, Scheme, Tls};

use super::notes::Notes;
use super::reader::Setting;

/// A listener under translation.
struct Listener {
    setting: Setting,
    /// Whether the listener is not translated, together with the options that follow it.
    is_skipped: bool,
    port: u16,
    host: String,
    is_websocket: bool,
    has_ipv4_only: bool,
    certificate: Option<Setting>,
    key: Option<Setting>,
    authorities: Option<Setting>,
    revoked: Option<Setting>,
    needs_certificates: bool,
    /// Whether the name in the certificate is the user name.
    identity: bool,
    /// All settings except those about TLS.
    own: ListenerConfig,
}

/// All listeners, in their order. Options apply to the last `listener`, and those before the first one to the default
/// listener. `port` and `bind_address` always belong to the default listener.
pub(super) struct Listeners {
    all: Vec<Listener>,
    /// Index of the default listener, which exists if an option applies to it.
    default: Option<usize>,
    /// Index of the last `listener`.
    last: Option<usize>,
    /// `per_listener_settings`: whether users belong to listeners.
    has_users: bool,
}

impl Listeners {
    pub(super) fn new(has_users: bool) -> Self {
        Self { all: Vec::new(), default: None, last: None, has_users }
    }

    /// Takes an option of a listener. Returns false for other options.
    pub(super) fn take(&mut self, setting: &Setting, notes: &mut Notes) -> bool {
        let value = setting.value.as_str();
        match setting.key.as_str() {
            "listener" => {
                self.listener(setting, notes);
                return true;
            }
            "port" => {
                match value.parse() {
                    Ok(port @ 1..) => self.default_listener(setting).port = port,
                    _ => notes.left_out(setting, "expected a port from 1 to 65535"),
                }
                return true;
            }
            "bind_address" => {
                value.clone_into(&mut self.default_listener(setting).host);
                return true;
            }
            "protocol"
            | "socket_domain"
            | "certfile"
            | "keyfile"
            | "cafile"
            | "crlfile"
            | "capath"
            | "require_certificate"
            | "use_identity_as_username"
            | "use_username_as_clientid"
            | "max_connections"
            | "accept_protocol_versions" => (),
            // The name in mosquitto 2.1.
            "listener_allow_anonymous" => (),
            "allow_anonymous" | "password_file" if self.has_users => (),
            _ => return false,
        }
        let last = match self.last {
            Some(last) => &mut self.all[last],
            None => self.default_listener(setting),
        };
        if last.is_skipped {
            notes.left_out(setting, "its listener is left out");
            return true;
        }
        match (setting.key.as_str(), value) {
            ("protocol", "websockets") => last.is_websocket = true,
            ("protocol", "mqtt") => (),
            ("protocol", _) => notes.left_out(setting, "expected mqtt or websockets"),
            ("socket_domain", domain) => last.has_ipv4_only = domain == "ipv4",
            ("certfile", _) => last.certificate = Some(setting.clone()),
            ("keyfile", _) => last.key = Some(setting.clone()),
            ("cafile", _) => last.authorities = Some(setting.clone()),
            ("crlfile", _) => last.revoked = Some(setting.clone()),
            ("require_certificate", value) => last.needs_certificates = value == "true",
            ("use_identity_as_username", value) => last.identity = value == "true",
            ("use_username_as_clientid", value) => {
                last.own.user_as_client_id = (value == "true").then_some(true);
            }
            ("allow_anonymous" | "listener_allow_anonymous", value) => {
                last.own.allow_anonymous = Some(value == "true")
            }
            ("password_file", path) => last.own.password_file = Some(path.into()),
            ("max_connections", value) => match value.parse::<i64>() {
                Ok(most) => last.own.connections = usize::try_from(most).ok(),
                Err(_) => notes.left_out(setting, "expected a number"),
            },
            ("accept_protocol_versions", value) => last.accept(value, setting, notes),
            _ => notes.left_out(setting, "put all authorities in one file, `tls.client-ca`"),
        }
        true
    }

    /// Begins the listener of `listener PORT [ADDRESS]`.
    fn listener(&mut self, setting: &Setting, notes: &mut Notes) {
        let value = setting.value.as_str();
        let (port, host) = value.split_once(char::is_whitespace).unwrap_or((value, ""));
        let well = port.parse().ok().filter(|port| *port > 0);
        let is_unix = port == "0";
        self.last = Some(self.add(setting, well.unwrap_or(0), host.trim()));
        if well.is_none() {
            let why = match is_unix {
                true => "Unix sockets are not supported",
                false => "expected a port from 1 to 65535",
            };
            notes.left_out(setting, why);
        }
    }

    /// The default listener, which is created if it does not exist; `setting` applies to it.
    fn default_listener(&mut self, setting: &Setting) -> &mut Listener {
        let default = match self.default {
            Some(default) => default,
            None => self.add(setting, 1883, ""),
        };
        self.default = Some(default);
        &mut self.all[default]
    }

    /// Adds a listener, which is skipped without a port. Returns its number.
    fn add(&mut self, setting: &Setting, port: u16, host: &str) -> usize {
        self.all.push(Listener {
            setting: setting.clone(),
            is_skipped: port == 0,
            port,
            host: host.to_owned(),
            is_websocket: false,
            has_ipv4_only: false,
            certificate: None,
            key: None,
            authorities: None,
            revoked: None,
            needs_certificates: false,
            identity: false,
            own: ListenerConfig::default(),
        });
        self.all.len() - 1
    }

    /// Translates all listeners. Without any, mosquitto listens on the loopback address, as `config` does.
    pub(super) fn finish(self, config: &mut Config, notes: &mut Notes) {
        let mut all = Vec::new();
        for listener in self.all.into_iter().filter(|own| !own.is_skipped) {
            let Some(address) = listener.address() else {
                notes.left_out(&listener.setting, "expected an address instead of a host name");
                continue;
            };
            let scheme = match (&listener.certificate, listener.is_websocket) {
                (Some(_), true) => Scheme::Wss,
                (Some(_), false) => Scheme::Mqtts,
                (None, true) => Scheme::Ws,
                (None, false) => Scheme::Mqtt,
            };
            let address = Listen::new((address, listener.port), scheme);
            all.push(address);
            if listener.is_websocket && config.security.allowed_origins.is_empty() {
                let what = "`allowed-origins` is \"*\", as in mosquitto; name your origins instead";
                notes.hint(&listener.setting, what);
                config.security.allowed_origins = vec!["*".to_owned()];
            }
            listener.settings(address, config, notes);
        }
        if !all.is_empty() {
            config.listen = all;
        }
    }
}

impl Listener {
    fn address(&self) -> Option<IpAddr> {
        match self.host.as_str() {
            "" if self.has_ipv4_only => Some([0, 0, 0, 0].into()),
            "" => Some([0u16; 8].into()),
            "localhost" => Some([127, 0, 0, 1].into()),
            host => host.parse().ok(),
        }
    }

    /// Translates `accept_protocol_versions`.
    fn accept(&mut self, value: &str, setting: &Setting, notes: &mut Notes) {
        let mut protocols = Vec::new();
        for version in value.split(',').map(str::trim) {
            match version {
                "5" => protocols.push(Protocol::V5),
                "4" => protocols.push(Protocol::V3),
                _ => notes.left_out(setting, "MQTT 5 and 3.1.1 are accepted, and 3.1 is not"),
            }
        }
        self.own.protocols = Some(protocols).filter(|own| !own.is_empty() && own.len() < 2);
    }

    /// Adds the settings of the listener to the configuration.
    fn settings(mut self, address: Listen, config: &mut Config, notes: &mut Notes) {
        let mut own = std::mem::take(&mut self.own);
        own.address = address;
        if self.needs_certificates && !self.identity && self.certificate.is_some() {
            // Clients with a certificate log in like others.
            own.certificate_user = Some(false);
        }
        let tls = self.tls(notes);
        if let Some(tls) = tls {
            match &config.security.tls {
                Some(other) if *other == tls => (),
                Some(_) => own.tls = Some(tls),
                None => config.security.tls = Some(tls),
            }
        }
        if own != ListenerConfig::new(address) {
            config.listeners.push(own);
        }
    }

    fn tls(self, notes: &mut Notes) -> Option<Tls> {
        let Some(certificate) = self.certificate else {
            if let Some(authorities) = &self.authorities {
                notes.left_out(authorities, "the listener has no certificate");
            }
            return None;
        };
        let client_authorities =
            self.authorities.as_ref().filter(|_| self.needs_certificates).map(|own| &own.value);
        let tls = Tls {
            certificate: certificate.value.clone().into(),
            key: self.key.map(|key| key.value).unwrap_or_default().into(),
            client_authorities: client_authorities.map(Into::into),
            client_revoked: self
                .revoked
                .filter(|_| self.needs_certificates)
                .map(|own| own.value.into()),
        };
        if let Some(authorities) = self.authorities.filter(|_| !self.needs_certificates) {
            let why = "clients without a certificate are accepted, so none is requested";
            notes.unneeded(&authorities, why);
        }
        Some(tls)
    }
}
