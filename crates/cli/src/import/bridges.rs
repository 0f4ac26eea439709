//! Bridges of mosquitto.

use std::time::Duration;

use phalanx_broker::{Bridge, BridgeTls, BridgeTopic, Config, Direction};

use super::UNKNOWN;
use super::notes::Notes;
use super::reader::Setting;

/// The bridges under translation: the options that follow `connection` apply to it.
#[derive(Default)]
pub(super) struct Bridges {
    all: Vec<TranslatedBridge>,
}

struct TranslatedBridge {
    setting: Setting,
    /// The options that follow it.
    options: Vec<Setting>,
    bridge: Bridge,
    addresses: Vec<Setting>,
    tls: BridgeTls,
    is_tls: bool,
    /// Whether an option requests encryption with pre-shared keys, which is not supported.
    needs_psk: bool,
}

impl Bridges {
    /// Takes an option of a bridge. Returns false for other options.
    pub(super) fn take(&mut self, setting: &Setting, notes: &mut Notes) -> bool {
        if setting.key == "connection" {
            let mut bridge = Bridge::default();
            bridge.name = setting.value.clone();
            bridge.reconnect_delay = Duration::from_secs(5);
            let (setting, addresses) = (setting.clone(), Vec::new());
            let (tls, is_tls, needs_psk) = (BridgeTls::default(), false, false);
            let options = Vec::new();
            self.all.push(TranslatedBridge {
                setting,
                options,
                bridge,
                addresses,
                tls,
                is_tls,
                needs_psk,
            });
            return true;
        }
        if !is_option(&setting.key) {
            return false;
        }
        let result = match self.all.last_mut() {
            Some(bridge) => bridge.take(setting, notes),
            None => Err("there is no `connection` before it".to_owned()),
        };
        if let Err(reason) = result {
            notes.left_out(setting, &reason);
        }
        true
    }

    /// Adds the bridges to the configuration.
    pub(super) fn finish(self, config: &mut Config, notes: &mut Notes) {
        config.bridges = self.all.into_iter().filter_map(|bridge| bridge.finish(notes)).collect();
    }
}

/// Whether an option belongs to bridges.
fn is_option(key: &str) -> bool {
    let prefixes = ["bridge_", "remote_", "local_", "notification"];
    let keys = [
        "address",
        "addresses",
        "topic",
        "cleansession",
        "clientid",
        "username",
        "password",
        "keepalive_interval",
        "start_type",
        "threshold",
        "try_private",
        "idle_timeout",
        "round_robin",
        "restart_timeout",
    ];
    keys.contains(&key) || prefixes.iter().any(|start| key.starts_with(start))
}

impl TranslatedBridge {
    fn take(&mut self, setting: &Setting, notes: &mut Notes) -> Result<(), String> {
        self.options.push(setting.clone());
        let Self { bridge, tls, .. } = self;
        let value = setting.value.as_str();
        let path = || Some(value.into());
        match setting.key.as_str() {
            "address" | "addresses" => self.addresses.push(setting.clone()),
            "topic" => bridge.topics.push(topic(value)?),
            "clientid" | "remote_clientid" => bridge.client_id = value.to_owned(),
            "username" | "remote_username" => bridge.username = Some(value.to_owned()),
            "password" | "remote_password" => {
                let file = format!("/etc/phalanx/bridge-{}.password", bridge.name);
                notes.hint(setting, &format!("write the password to the file {file}"));
                bridge.password_file = Some(file.into());
            }
            "cleansession" => {
                bridge.clean_start = setting.flag()?;
                bridge.local_clean_start = bridge.clean_start;
            }
            "local_cleansession" => bridge.local_clean_start = setting.flag()?,
            "keepalive_interval" => {
                bridge.keep_alive = value.parse().map_err(|_| "expected seconds".to_owned())?;
            }
            "bridge_session_expiry_interval" => {
                bridge.session_expiry = value.parse().map_err(|_| "expected seconds".to_owned())?;
            }
            "restart_timeout" => self.restart(value)?,
            "notification_topic" => bridge.notification_topic = Some(value.to_owned()),
            "bridge_outgoing_retain" => bridge.retain_as_published = setting.flag()?,
            "bridge_cafile" => (tls.authorities, self.is_tls) = (path(), true),
            "bridge_certfile" => (tls.certificate, self.is_tls) = (path(), true),
            "bridge_keyfile" => (tls.key, self.is_tls) = (path(), true),
            "bridge_tls_use_os_certs" => self.is_tls |= setting.flag()?,
            "bridge_alpn" => tls.alpn = Some(value.to_owned()),
            "bridge_insecure" if setting.flag()? => {
                return Err("the name in the certificate is always verified".into());
            }
            "bridge_capath" => {
                self.is_tls = true;
                return Err("join the authorities in one file, and name it in `tls.ca`".into());
            }
            "bridge_identity" | "bridge_psk" => {
                self.needs_psk = true;
                return Err("pre-shared keys are not supported".into());
            }
            "start_type" if value != "automatic" => {
                return Err("bridges always start with the broker".into());
            }
            "round_robin" if setting.flag()? => {
                return Err("the addresses are tried in their order".into());
            }
            "bridge_reload_type" if value == "immediate" => {
                return Err("a reload restarts a bridge whose settings changed".into());
            }
            "bridge_require_ocsp" if setting.flag()? => {
                return Err("certificates are not checked by OCSP".into());
            }
            "bridge_max_packet_size" if value != "0" => {
                return Err("messages have the maximum size of the remote broker".into());
            }
            "bridge_bind_address" => return Err("the system selects the address".into()),
            key => match unneeded(key) {
                Some(reason) => notes.unneeded(setting, reason),
                None => return Err(UNKNOWN.into()),
            },
        }
        Ok(())
    }

    /// Parses `SECONDS`, or the first and the longest delay.
    fn restart(&mut self, value: &str) -> Result<(), String> {
        let seconds = |text: &str| {
            let seconds = text.parse().map_err(|_| "expected one or two numbers".to_owned());
            seconds.map(|seconds: u64| Duration::from_secs(seconds.clamp(1, 3600)))
        };
        let mut parts = value.split_whitespace();
        let first = seconds(parts.next().unwrap_or_default())?;
        let max = parts.next().map_or(Ok(first), seconds)?;
        let bridge = &mut self.bridge;
        (bridge.reconnect_delay, bridge.max_reconnect_delay) = (first, max.max(first));
        Ok(())
    }

    /// `None` for a bridge that would lose its encryption.
    fn finish(self, notes: &mut Notes) -> Option<Bridge> {
        let Self { setting, options, mut bridge, addresses, tls, is_tls, needs_psk } = self;
        if needs_psk && !is_tls {
            notes
                .left_out(&setting, "without its pre-shared key the bridge would not be encrypted");
            let dependent = options.iter().filter(|setting| setting.key != "bridge_psk");
            dependent.for_each(|setting| notes.left_out(setting, "its bridge is left out"));
            return None;
        }
        let scheme = if is_tls { "mqtts" } else { "mqtt" };
        for setting in addresses {
            for text in setting.value.split_whitespace() {
                // mosquitto's default port is 1883, even with TLS.
                let has_port =
                    text.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
                let port = if has_port { "" } else { ":1883" };
                match format!("{scheme}://{text}{port}").parse() {
                    Ok(remote) => bridge.address.push(remote),
                    Err(reason) => notes.left_out(&setting, &reason),
                }
            }
        }
        let disables_notifications = |setting: &Setting| {
            matches!(
                (&*setting.key, setting.flag()),
                ("notifications", Ok(false)) | ("notifications_local_only", Ok(true))
            )
        };
        if options.iter().any(disables_notifications) && bridge.notification_topic.take().is_some()
        {
            let topics = options.iter().filter(|setting| setting.key == "notification_topic");
            let reason = "the remote broker gets no notifications, and the topic here is \
                       $SYS/broker/connection/NAME/state";
            topics.for_each(|setting| notes.left_out(setting, reason));
        }
        if bridge.client_id.is_empty() {
            bridge.client_id = bridge.name.clone();
            let message = "the default client identifier of mosquitto begins with the host name; this one is the name of \
                        the bridge";
            notes.hint(&setting, message);
        }
        bridge.tls = is_tls.then_some(tls);
        Some(bridge)
    }
}

/// Why an option of a bridge is not needed; `None` if it is unknown.
fn unneeded(key: &str) -> Option<&'static str> {
    Some(match key {
        "try_private" => "bridges use MQTT 5, whose no-local and retain options replace it",
        "notifications" | "notifications_local_only" => {
            "the state is below $SYS/broker/connection here, and at the remote broker with \
             notification-topic"
        }
        "local_clientid" | "local_username" | "local_password" => {
            "the session here is that of the client $bridge/NAME, which access lists do not restrict"
        }
        "bridge_protocol_version" => "bridges use MQTT 5",
        "bridge_attempt_unsubscribe" => {
            "bridges end subscriptions that are not configured any more"
        }
        "bridge_insecure"
        | "bridge_reload_type"
        | "bridge_require_ocsp"
        | "start_type"
        | "round_robin" => "it is the default",
        "bridge_ciphers" | "bridge_ciphers_tls1.3" | "bridge_tls_version" => {
            "TLS 1.2 and 1.3 are offered"
        }
        "bridge_max_packet_size" | "bridge_max_topic_alias" | "bridge_receive_maximum" => {
            "the limits of the remote broker are respected"
        }
        "bridge_tcp_keepalive" | "bridge_tcp_user_timeout" => "`keep-alive` detects a lost peer",
        "threshold" | "idle_timeout" => "it is for lazy bridges; bridges start with the broker",
        _ => return None,
    })
}

/// `PATTERN [[[out | in | both] QOS] LOCAL REMOTE]`.
fn topic(value: &str) -> Result<BridgeTopic, String> {
    let mut parts = value.split_whitespace();
    let mut text = || parts.next().map(|part| if part == "\"\"" { "" } else { part });
    let pattern = text().unwrap_or_default().to_owned();
    let direction = match text() {
        None | Some("out") => Direction::Out,
        Some("in") => Direction::In,
        Some("both") => Direction::Both,
        Some(other) => return Err(format!("found {other:?}, expected out, in or both")),
    };
    let qos = text().unwrap_or("0");
    let qos = qos.parse().map_err(|_| format!("found {qos:?}, expected a QoS"))?;
    let local_prefix = text().unwrap_or_default().to_owned();
    let remote_prefix = text().unwrap_or_default().to_owned();
    Ok(BridgeTopic {
        pattern,
        direction,
        qos,
        local_prefix,
        remote_prefix,
        ..BridgeTopic::default()
    })
}
