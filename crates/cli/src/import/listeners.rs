//! Listeners of mosquitto and their TLS.

use std::net::IpAddr;

use phalanx_broker::{Config, Listen, Scheme, Tls};

use super::notes::Notes;
use super::reader::Setting;

/// A listener under translation: the options that follow it apply to it.
struct Listener {
    setting: Setting,
    port: u16,
    host: String,
    is_websocket: bool,
    has_ipv4_only: bool,
    certificate: Option<Setting>,
    key: Option<Setting>,
    authorities: Option<Setting>,
    revoked: Option<Setting>,
    needs_certificates: bool,
}

/// All listeners, in their order.
#[derive(Default)]
pub(super) struct Listeners {
    all: Vec<Listener>,
}

impl Listeners {
    /// Takes an option of a listener. Returns false for other options.
    pub(super) fn take(&mut self, setting: &Setting, notes: &mut Notes) -> bool {
        let value = setting.value.as_str();
        match setting.key.as_str() {
            "listener" | "port" => {
                let (port, host) = value.split_once(char::is_whitespace).unwrap_or((value, ""));
                match port.parse() {
                    Ok(0) => notes.left_out(setting, "Unix sockets are not supported"),
                    Ok(port) => self.add(setting, port, host.trim()),
                    Err(_) => notes.left_out(setting, "expected a port from 1 to 65535"),
                }
                return true;
            }
            "bind_address"
            | "protocol"
            | "socket_domain"
            | "certfile"
            | "keyfile"
            | "cafile"
            | "crlfile"
            | "capath"
            | "require_certificate" => (),
            _ => return false,
        }
        if self.all.is_empty() {
            // Without `listener`, the options apply to the default listener.
            self.add(setting, 1883, "");
        }
        let Some(last) = self.all.last_mut() else { return true };
        match (setting.key.as_str(), value) {
            ("bind_address", host) => host.clone_into(&mut last.host),
            ("protocol", "websockets") => last.is_websocket = true,
            ("protocol", "mqtt") => (),
            ("protocol", _) => notes.left_out(setting, "expected mqtt or websockets"),
            ("socket_domain", domain) => last.has_ipv4_only = domain == "ipv4",
            ("certfile", _) => last.certificate = Some(setting.clone()),
            ("keyfile", _) => last.key = Some(setting.clone()),
            ("cafile", _) => last.authorities = Some(setting.clone()),
            ("crlfile", _) => last.revoked = Some(setting.clone()),
            ("require_certificate", value) => last.needs_certificates = value == "true",
            _ => notes.left_out(setting, "put all authorities in one file, `tls.client-ca`"),
        }
        true
    }

    fn add(&mut self, setting: &Setting, port: u16, host: &str) {
        self.all.push(Listener {
            setting: setting.clone(),
            port,
            host: host.to_owned(),
            is_websocket: false,
            has_ipv4_only: false,
            certificate: None,
            key: None,
            authorities: None,
            revoked: None,
            needs_certificates: false,
        });
    }

    /// Translates all listeners. Without any, mosquitto listens on the loopback address, as `config` does.
    pub(super) fn finish(self, config: &mut Config, notes: &mut Notes) {
        let mut all = Vec::new();
        for listener in self.all {
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
            all.push(Listen::new((address, listener.port), scheme));
            if listener.is_websocket && config.security.allowed_origins.is_empty() {
                let what = "`allowed-origins` is \"*\", as in mosquitto; name your origins instead";
                notes.hint(&listener.setting, what);
                config.security.allowed_origins = vec!["*".to_owned()];
            }
            listener.tls(config, notes);
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

    fn tls(self, config: &mut Config, notes: &mut Notes) {
        let Some(certificate) = self.certificate else {
            if let Some(authorities) = &self.authorities {
                notes.left_out(authorities, "the listener has no certificate");
            }
            return;
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
        match &config.security.tls {
            Some(other) if *other != tls => {
                notes.left_out(&certificate, "all addresses share the first certificate");
            }
            _ => config.security.tls = Some(tls),
        }
    }
}
