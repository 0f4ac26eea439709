//! A listener of mosquitto, its settings and its TLS.

use std::net::IpAddr;

use phalanx_broker::{Config, Listen, ListenerConfig, Protocol, Tls};

use super::notes::Notes;
use super::reader::Setting;

/// A listener under translation.
pub(super) struct Listener {
    pub(super) setting: Setting,
    /// The options that apply to it.
    pub(super) options: Vec<Setting>,
    /// Whether the listener is not translated, together with the options that follow it.
    pub(super) is_skipped: bool,
    pub(super) port: u16,
    pub(super) host: String,
    pub(super) is_websocket: bool,
    has_ipv4_only: bool,
    has_ipv6_only: bool,
    /// The origins of pages that may connect over WebSocket; all if empty.
    pub(super) origins: Vec<String>,
    pub(super) certificate: Option<Setting>,
    pub(super) key: Option<Setting>,
    pub(super) authorities: Option<Setting>,
    pub(super) revoked: Option<Setting>,
    pub(super) needs_certificates: bool,
    /// Whether it uses pre-shared keys, which are not supported.
    pub(super) needs_psk: bool,
    /// Whether it accepts connections of one interface only.
    pub(super) has_interface: bool,
    /// Whether the name in the certificate is the user name.
    pub(super) identity: bool,
    /// Whether the subject of the certificate is the user name, which is not supported.
    subject: bool,
    /// Whether an option has a value for which mosquitto does not start.
    is_malformed: bool,
    /// All settings except those about TLS.
    pub(super) settings: ListenerConfig,
}

impl Listener {
    /// A listener without options, which is skipped without a port.
    pub(super) fn new(setting: &Setting, port: u16, host: &str) -> Self {
        Self {
            setting: setting.clone(),
            options: Vec::new(),
            is_skipped: port == 0,
            port,
            host: host.to_owned(),
            is_websocket: false,
            has_ipv4_only: false,
            has_ipv6_only: false,
            origins: Vec::new(),
            certificate: None,
            key: None,
            authorities: None,
            revoked: None,
            needs_certificates: false,
            needs_psk: false,
            has_interface: false,
            identity: false,
            subject: false,
            is_malformed: false,
            settings: ListenerConfig::default(),
        }
    }

    /// Takes an option that applies to it.
    pub(super) fn take(&mut self, setting: &Setting, notes: &mut Notes) -> Result<(), String> {
        let value = setting.value.as_str();
        match setting.key.as_str() {
            "protocol" => match value {
                "websockets" => self.is_websocket = true,
                "mqtt" => (),
                _ => return self.malformed("expected mqtt or websockets"),
            },
            "socket_domain" => {
                (self.has_ipv4_only, self.has_ipv6_only) = (value == "ipv4", value == "ipv6");
            }
            "websockets_origin" => self.origins.push(value.to_owned()),
            "certfile" => self.certificate = Some(setting.clone()),
            "keyfile" => self.key = Some(setting.clone()),
            "cafile" => self.authorities = Some(setting.clone()),
            "crlfile" => self.revoked = Some(setting.clone()),
            "require_certificate" => self.needs_certificates = self.flag(setting)?,
            "use_identity_as_username" => self.identity = self.flag(setting)?,
            "use_subject_as_username" => {
                self.subject = self.flag(setting)?;
                return Err(
                    "the user name is that of CONNECT, or the common name of the certificate"
                        .to_owned(),
                );
            }
            "use_username_as_clientid" => {
                self.settings.user_as_client_id = self.flag(setting)?.then_some(true);
            }
            "allow_anonymous" | "listener_allow_anonymous" => {
                self.settings.allow_anonymous = Some(self.flag(setting)?);
            }
            "password_file" => self.settings.password_file = Some(value.into()),
            "max_connections" => {
                let Ok(max) = value.parse::<i64>() else {
                    return self.malformed("expected a number");
                };
                self.settings.connections = usize::try_from(max).ok();
            }
            "accept_protocol_versions" => return self.accept(value, setting, notes),
            "bind_interface" => {
                self.has_interface = true;
                return Err("name the interface's address in `listen`".to_owned());
            }
            "psk_hint" => {
                self.needs_psk = true;
                return Err(
                    "pre-shared keys are not supported by rustls; use SCRAM or certificates"
                        .to_owned(),
                );
            }
            _ => return Err("put all authorities in one file, `tls.client-ca`".to_owned()),
        }
        Ok(())
    }

    fn flag(&mut self, setting: &Setting) -> Result<bool, String> {
        setting.flag().inspect_err(|_| self.is_malformed = true)
    }

    /// The error of an option that mosquitto rejects.
    fn malformed(&mut self, reason: &str) -> Result<(), String> {
        self.is_malformed = true;
        Err(reason.to_owned())
    }

    /// Why the listener would accept clients that it does not accept in mosquitto, because an option is left out.
    pub(super) fn exposure(&self) -> Option<&'static str> {
        let has_any_address = self.address().is_none_or(|address| address.is_unspecified());
        if self.is_malformed {
            Some("mosquitto does not start with one of its options")
        } else if self.needs_psk && self.certificate.is_none() {
            Some("without its pre-shared keys the listener would not be encrypted")
        } else if self.needs_certificates
            && self.certificate.is_some()
            && self.authorities.is_none()
        {
            Some("without `cafile` the listener would accept clients without a certificate")
        } else if (self.identity || self.subject)
            && self.certificate.is_some()
            && !self.needs_certificates
        {
            Some(
                "mosquitto accepts no client here, because it requests no certificates; set require_certificate",
            )
        } else if self.has_ipv6_only && has_any_address {
            Some("the listener would accept IPv4 as well; name an address")
        } else if self.has_interface && has_any_address {
            Some("without its interface the listener would accept connections of all interfaces")
        } else {
            None
        }
    }

    pub(super) fn leave_out(&self, reason: &str, notes: &mut Notes) {
        notes.left_out(&self.setting, reason);
        let reported = ["psk_hint", "capath", "bind_interface", "use_subject_as_username"];
        let others =
            self.options.iter().filter(|setting| !reported.contains(&setting.key.as_str()));
        let at = |setting: &Setting| (setting.file.clone(), setting.line);
        for setting in others.filter(|setting| at(setting) != at(&self.setting)) {
            notes.left_out(setting, "its listener is left out");
        }
    }

    pub(super) fn address(&self) -> Option<IpAddr> {
        match self.host.as_str() {
            "" if self.has_ipv4_only => Some([0, 0, 0, 0].into()),
            "" => Some([0u16; 8].into()),
            "localhost" => Some([127, 0, 0, 1].into()),
            host => host.parse().ok(),
        }
    }

    /// Translates `accept_protocol_versions`.
    fn accept(&mut self, value: &str, setting: &Setting, notes: &mut Notes) -> Result<(), String> {
        let mut protocols = Vec::new();
        for version in value.split([',', ' ', '\t']).filter(|version| !version.is_empty()) {
            match version {
                "5" => protocols.push(Protocol::V5),
                "4" => protocols.push(Protocol::V3),
                _ => notes.left_out(setting, "MQTT 5 and 3.1.1 are accepted, and 3.1 is not"),
            }
        }
        if protocols.is_empty() {
            return self.malformed("none of these versions is supported");
        }
        self.settings.protocols = Some(protocols).filter(|protocols| protocols.len() < 2);
        Ok(())
    }

    /// Adds the settings of the listener to the configuration.
    pub(super) fn settings(mut self, address: Listen, config: &mut Config, notes: &mut Notes) {
        let mut settings = std::mem::take(&mut self.settings);
        settings.address = address;
        let is_open = settings.allow_anonymous.unwrap_or(config.security.allow_anonymous);
        if is_open && settings.user_as_client_id == Some(true) {
            // mosquitto rejects clients without a user name here.
            settings.allow_anonymous = Some(false);
        }
        if self.needs_certificates && !self.identity && self.certificate.is_some() {
            // Clients with a certificate log in like others.
            settings.certificate_user = Some(false);
        }
        self.close(address, &mut settings, config, notes);
        let tls = self.tls(notes);
        if let Some(tls) = tls {
            match &config.security.tls {
                Some(other) if *other == tls => (),
                Some(_) => settings.tls = Some(tls),
                None => config.security.tls = Some(tls),
            }
        }
        if settings != ListenerConfig::new(address) {
            config.listeners.push(settings);
        }
    }

    /// Lets nobody log in where nobody can log in to mosquitto. Such a public address without client certificates is an
    /// error of the configuration.
    fn close(
        &self,
        address: Listen,
        settings: &mut ListenerConfig,
        config: &Config,
        notes: &mut Notes,
    ) {
        let security = &config.security;
        let has_users = settings.password_file.is_some() || security.password_file.is_some();
        let certificates = self.needs_certificates && self.certificate.is_some();
        let is_open = settings.allow_anonymous.unwrap_or(security.allow_anonymous);
        let has_logins = has_users || is_open || certificates && self.identity;
        if !has_logins && (certificates || address.address.is_local()) {
            settings.allow_anonymous = Some(false);
            let message = "nobody can log in here, because there are no users; set password-file, jwt, auth-http or \
                        allow-anonymous";
            notes.hint(&self.setting, message);
        }
    }

    fn tls(self, notes: &mut Notes) -> Option<Tls> {
        let Some(certificate) = self.certificate else {
            if let Some(authorities) = &self.authorities {
                notes.left_out(authorities, "the listener has no certificate");
            }
            return None;
        };
        let client_authorities = self
            .authorities
            .as_ref()
            .filter(|_| self.needs_certificates)
            .map(|setting| &setting.value);
        let tls = Tls {
            certificate: certificate.value.clone().into(),
            key: self.key.map(|key| key.value).unwrap_or_default().into(),
            client_authorities: client_authorities.map(Into::into),
            client_revoked: self
                .revoked
                .as_ref()
                .filter(|_| self.needs_certificates)
                .map(|setting| (&setting.value).into()),
        };
        if !self.needs_certificates {
            let reason = "clients without a certificate are accepted, so none is requested";
            let unneeded = [self.authorities, self.revoked].into_iter().flatten();
            unneeded.for_each(|setting| notes.unneeded(&setting, reason));
        }
        Some(tls)
    }
}

#[cfg(test)]
mod tests {
    use crate::import::tests::translated;

    const TLS: &str = "certfile /c\nkeyfile /k\n";

    /// The translation of an example, and the notes that begin with `line`.
    fn of(text: &str, line: &str) -> (String, Vec<String>) {
        let (text, mut notes) = translated(&format!("{text}max_packet_size 1000\n"));
        notes.retain(|note| note.starts_with(line));
        (text, notes)
    }

    #[test]
    fn flags_are_words_or_digits() {
        for (yes, no) in [("true", "false"), ("1", "0")] {
            let (text, _) = of(
                &format!(
                    "listener 8883\n{TLS}cafile /ca\nrequire_certificate {yes}\nuse_identity_as_username {yes}\n\
                     use_username_as_clientid {yes}\nlistener 8884\n{TLS}cafile /ca\nrequire_certificate {no}\n"
                ),
                "",
            );
            assert_eq!(text.matches("client-ca = \"/ca\"").count(), 1, "{text}");
            assert!(text.contains("user-as-client-id = true"), "{text}");
            let (_, notes) = of(&format!("allow_anonymous {no}\npersistence {no}\n"), "");
            assert!(notes.is_empty(), "{notes:?}");
        }
        let (text, notes) = of("listener 8883\nrequire_certificate yes\n", "2: ");
        assert_eq!(notes[0], "2: require_certificate yes: left out: expected true or false");
        assert!(text.contains("listen = []"), "{text}");
    }

    #[test]
    fn a_listener_that_would_accept_more_clients_is_left_out() {
        for (options, reason) in [
            ("psk_hint x\npsk_file /p\n".to_owned(), "without its pre-shared keys"),
            (format!("{TLS}capath /cas\nrequire_certificate true\n"), "without `cafile`"),
            ("bind_interface eth0\n".to_owned(), "without its interface"),
            (format!("{TLS}use_identity_as_username 1\n"), "no client"),
            (format!("{TLS}use_subject_as_username 1\n"), "no client"),
            ("socket_domain ipv6\n".to_owned(), "IPv4"),
            ("protocol http_api\n".to_owned(), "does not start"),
            ("max_connections x\n".to_owned(), "does not start"),
            ("accept_protocol_versions 3\n".to_owned(), "does not start"),
            ("allow_anonymous maybe\nper_listener_settings true\n".to_owned(), "does not start"),
        ] {
            let text = format!("listener 1884\nallow_anonymous true\n{options}");
            let (alone, notes) = of(&text, "1: listener 1884: left out: ");
            assert!(alone.contains("listen = []") && !alone.contains("[tls]"), "{alone}");
            assert!(notes.len() == 1 && notes[0].contains(reason), "{notes:?}");
            let (both, notes) = of(&format!("{text}max_connections 7\nlistener 1885\n"), "");
            assert!(both.contains("listen = [\"mqtt://[::]:1885\"]"), "{both}");
            let others = notes.iter().filter(|note| note.ends_with("its listener is left out"));
            assert!(others.count() > 0, "{notes:?}");
        }
        // These are not exposed.
        for options in [
            format!("psk_hint x\n{TLS}"),
            format!("{TLS}capath /cas\ncafile /ca\nrequire_certificate true\n"),
        ] {
            let (text, _) = of(&format!("listener 8883\n{options}"), "");
            assert!(text.contains("mqtts://[::]:8883"), "{text}");
        }
        let (text, _) = of("listener 1884 192.0.2.1\nbind_interface eth0\n", "");
        assert!(text.contains("mqtt://192.0.2.1:1884"), "{text}");
        let (text, _) = of("listener 1884 0.0.0.0\nbind_interface eth0\n", "");
        assert!(text.contains("listen = []"), "{text}");
        let (text, _) = of("listener 1884\naccept_protocol_versions 5 3\n", "");
        assert!(text.contains("protocols = [\"5\"]"), "{text}");
        let (text, _) =
            of("allow_anonymous true\nlistener 1884\nuse_username_as_clientid true\n", "");
        assert!(text.contains("allow-anonymous = false"), "{text}");
    }

    #[test]
    fn addresses_without_logins_in_mosquitto_accept_none() {
        let certificates = format!("listener 8883\n{TLS}cafile /ca\nrequire_certificate true\n");
        for text in [
            "listener 1883 127.0.0.1\nallow_anonymous false\nauth_plugin /go-auth.so\n",
            "port 1884\nbind_address localhost\n",
            "per_listener_settings true\nallow_anonymous true\nlistener 1883 ::1\n",
            &certificates,
        ] {
            let (text, _) = of(text, "");
            assert!(text.contains("allow-anonymous = false"), "{text}");
        }
        for text in [
            "listener 1883 127.0.0.1\nallow_anonymous true\n",
            "listener 1883 127.0.0.1\npassword_file /u\n",
            "per_listener_settings true\nlistener 1883 ::1\npassword_file /u\n",
            &format!("{certificates}use_identity_as_username true\n"),
            // Without a listener, mosquitto accepts everyone of this machine.
            "allow_anonymous false\n",
        ] {
            let (text, _) = of(text, "");
            assert!(!text.contains("allow-anonymous = false"), "{text}");
        }
    }
}
