//! The listeners of mosquitto, and the options that apply to each.

use phalanx_broker::{Config, Listen, Scheme};

use super::listener::Listener;
use super::notes::Notes;
use super::reader::Setting;

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
    /// `allow_anonymous` of the default listener, which does not exist because of this option.
    default_anonymous: Option<bool>,
}

impl Listeners {
    pub(super) fn new(has_users: bool) -> Self {
        Self { all: Vec::new(), default: None, last: None, has_users, default_anonymous: None }
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
            | "use_subject_as_username"
            | "websockets_origin"
            | "use_username_as_clientid"
            | "max_connections"
            | "accept_protocol_versions"
            | "bind_interface"
            | "psk_hint" => (),
            // The name in mosquitto 2.1.
            "listener_allow_anonymous" => (),
            "allow_anonymous" if self.has_users && self.last.is_none() => {
                match setting.flag() {
                    Ok(flag) => self.default_anonymous = Some(flag),
                    Err(reason) => notes.left_out(setting, &reason),
                }
                return true;
            }
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
        last.options.push(setting.clone());
        if let Err(reason) = last.take(setting, notes) {
            notes.left_out(setting, &reason);
        }
        true
    }

    /// Begins the listener of `listener PORT [ADDRESS]`.
    fn listener(&mut self, setting: &Setting, notes: &mut Notes) {
        let value = setting.value.as_str();
        let (port, host) = value.split_once(char::is_whitespace).unwrap_or((value, ""));
        let valid_port = port.parse().ok().filter(|port| *port > 0);
        let is_unix = port == "0";
        self.last = Some(self.add(setting, valid_port.unwrap_or(0), host.trim()));
        if valid_port.is_none() {
            let reason = match is_unix {
                true => "Unix sockets are not supported",
                false => "expected a port from 1 to 65535",
            };
            notes.left_out(setting, reason);
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
        self.all.push(Listener::new(setting, port, host));
        self.all.len() - 1
    }

    /// Translates all listeners. Without any, mosquitto listens on the loopback address, as `config` does. If all are
    /// left out, the configuration has no address.
    pub(super) fn finish(mut self, config: &mut Config, notes: &mut Notes) {
        if let Some(default) = self.default {
            self.all[default].settings.allow_anonymous = self.default_anonymous;
        }
        let mut all = Vec::new();
        let has_some = !self.all.is_empty();
        for listener in self.all.into_iter().filter(|listener| !listener.is_skipped) {
            if let Some(reason) = listener.exposure() {
                listener.leave_out(reason, notes);
                continue;
            }
            let Some(address) = listener.address() else {
                listener.leave_out("expected an address instead of a host name", notes);
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
            if listener.is_websocket {
                allow_origins(&listener, config, notes);
            }
            listener.settings(address, config, notes);
        }
        if has_some {
            config.listen = all;
        }
    }
}

/// Allows the origins of a listener for WebSocket. All listeners share them.
fn allow_origins(listener: &Listener, config: &mut Config, notes: &mut Notes) {
    let allowed = &mut config.security.allowed_origins;
    if allowed.iter().any(|origin| origin == "*") {
        return;
    }
    if listener.origins.is_empty() {
        let message = "`allowed-origins` is \"*\" for all addresses, as in mosquitto; name your origins instead";
        notes.hint(&listener.setting, message);
        *allowed = vec!["*".to_owned()];
    } else {
        allowed.extend(listener.origins.iter().cloned());
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::import::reader::read;
    use crate::import::tests::translated;
    use crate::import::translate::translate;

    /// The addresses of a translation.
    fn listens(text: &str) -> Vec<String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let (config, _) = translate(&read(file.path()).unwrap());
        config.listen.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn settings_of_listeners_are_translated() {
        let (text, notes) = translated(
            "per_listener_settings true\nlistener 1883 127.0.0.1\nallow_anonymous true\nlistener 8883 192.0.2.1\n\
             password_file /u\ncertfile /c.pem\nkeyfile /k.pem\nmax_connections 100\n\
             accept_protocol_versions 5\nlistener 8884 192.0.2.1\ncertfile /c.pem\nkeyfile /k.pem\ncafile /ca.pem\n\
             require_certificate true\nuse_identity_as_username true\nlistener 8885 192.0.2.1\ncertfile /c.pem\n\
             keyfile /k.pem\ncafile /ca.pem\nrequire_certificate true\npassword_file /v\n\
             use_username_as_clientid true\n",
        );
        let mut config = Config::default();
        let (base, mut origins) = (Path::new(""), phalanx_config::Origins::default());
        phalanx_config::read(&mut config, &text, "test", base, &mut origins).unwrap();
        assert_eq!(config.check(), [], "{text}");
        let [local, passwords, certificates, both] = &config.listeners[..] else {
            panic!("{text}")
        };
        assert_eq!(local.allow_anonymous, Some(true));
        assert_eq!(passwords.password_file.as_deref(), Some(Path::new("/u")));
        assert_eq!((passwords.connections, passwords.tls.as_ref()), (Some(100), None));
        assert_eq!(passwords.protocols.as_deref(), Some(&[phalanx_broker::Protocol::V5][..]));
        assert!(config.security.tls.is_some_and(|tls| tls.client_authorities.is_none()));
        for listener in [certificates, both] {
            let authorities =
                listener.tls.as_ref().and_then(|tls| tls.client_authorities.as_deref());
            assert_eq!(authorities, Some(Path::new("/ca.pem")));
        }
        assert_eq!((certificates.certificate_user, both.certificate_user), (None, Some(false)));
        assert_eq!(both.user_as_client_id, Some(true));
        // Two findings concern packet size.
        assert_eq!(notes.len(), 3, "{notes:?}");
    }

    #[test]
    fn port_and_bind_address_describe_the_default_listener_wherever_they_are() {
        let tls = "certfile /c\nkeyfile /k\n";
        for (text, expected) in [
            ("bind_address 127.0.0.1\nport 1884\n".to_owned(), &["mqtt://127.0.0.1:1884"][..]),
            ("port 1884\nbind_address 127.0.0.1\n".to_owned(), &["mqtt://127.0.0.1:1884"]),
            (format!("{tls}port 8883\n"), &["mqtts://[::]:8883"]),
            (
                "listener 1884\nbind_address 127.0.0.1\nport 1883\n".to_owned(),
                &["mqtt://[::]:1884", "mqtt://127.0.0.1:1883"],
            ),
            // `allow_anonymous` alone begins no listener.
            (
                "per_listener_settings true\nallow_anonymous true\nlistener 1884\n".to_owned(),
                &["mqtt://[::]:1884"],
            ),
            (
                format!("port 1883\nlistener 8883\n{tls}"),
                &["mqtt://[::]:1883", "mqtts://[::]:8883"],
            ),
        ] {
            assert_eq!(listens(&text), expected, "{text}");
        }
    }

    #[test]
    fn options_of_a_listener_that_is_left_out_apply_to_no_other() {
        for left_out in ["listener 0 /run/m.sock", "listener x"] {
            let (text, notes) = translated(&format!(
                "per_listener_settings true\nlistener 1884\npassword_file /p\n{left_out}\nallow_anonymous true\n\
                 max_packet_size 1000\n"
            ));
            assert!(!text.contains("allow-anonymous = true"), "{text}");
            assert!(notes.iter().any(|note| note.starts_with("5: allow_anonymous true: left out")));
            let alone = format!("per_listener_settings true\n{left_out}\nallow_anonymous true\n");
            assert!(listens(&alone).is_empty());
        }
    }
}
