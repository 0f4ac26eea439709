//! Bridges: connections to other brokers, and the topics that they forward.

mod check;
mod remote;

use std::path::PathBuf;
use std::time::Duration;

use phalanx_config::{choices, settings};
use phalanx_tls::Connector;

use crate::config::values::{Expiry, KeepAlive};
use crate::config::{HOUR, first_line};
pub use remote::Remote;

settings! {
    /// A bridge: a connection to another broker, which this broker opens and keeps open.
    #[derive(Clone, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct Bridge {
        @section "Bridges";
        /// The name, in the log, the metrics and the topic of its state.
        pub name: String
            => required("name", "name of the bridge, in the log, metrics and topics of states");
        /// The remote broker's addresses. Each attempt to connect tries them in this order.
        pub address: Vec<Remote>
            => required("address",
                "addresses of the remote broker, mqtt://HOST:PORT or mqtts:// for TLS; tried in this order");
        /// The client identifier at the remote broker.
        pub client_id: String
            => required("remote-client-id",
                "client identifier at the remote broker, where no other client may have it");
        /// The user name at the remote broker.
        pub username: Option<String> => key("remote-username", "user name at the remote broker");
        /// The file whose first line is the password at the remote broker.
        pub password_file: Option<PathBuf>
            => key("remote-password-file", "file whose first line is the password at the remote broker");
        /// Whether the remote broker forgets the bridge's session when the bridge connects.
        pub clean_start: bool
            => key("clean-start",
                "discard the session at the remote broker with each connection, and its messages for this broker");
        /// Whether messages for the remote broker are dropped while it is away.
        pub local_clean_start: bool
            => key("local-clean-start", "drop messages for the remote broker while it is not connected");
        /// The session expiry interval at the remote broker, in seconds; `u32::MAX` means never.
        pub session_expiry: u32 = u32::MAX
            => key_as::<Expiry>("session-expiry",
                "lifetime of the session at the remote broker without a connection");
        /// Keep-alive in seconds; 0 for none.
        pub keep_alive: u16 = 60
            => key_as::<KeepAlive>("keep-alive", "interval of keep-alive packets");
        /// Delay before the second attempt to connect. It doubles with each further attempt.
        pub reconnect_delay: Duration = Duration::from_secs(1)
            => range("reconnect-delay", Duration::from_millis(1)..=HOUR,
                "delay before the second attempt to connect, which doubles with each further one");
        /// Maximum delay between attempts to connect.
        pub max_reconnect_delay: Duration = Duration::from_secs(30)
            => range("max-reconnect-delay", Duration::from_millis(1)..=HOUR,
                "longest delay between attempts to connect");
        /// Whether a broker does not return the bridge's own messages to it.
        pub no_local: bool = true
            => key("no-local", "exclude messages that the bridge itself published");
        /// Whether forwarded messages keep their retain flag.
        pub retain_as_published: bool = true
            => key("retain-as-published", "keep the retain flag of messages");
        /// Whether forwarded messages carry the path of brokers, by which loops are detected.
        pub loop_detection: bool = true
            => key("loop-detection", "add the user property bridge-via to messages, and drop those that return");
        /// The topic at the remote broker of the bridge's state, `1` or `0`.
        pub notification_topic: Option<String>
            => key("notification-topic",
                "topic at the remote broker of the retained state, 1 while connected and 0 otherwise");
        /// The forwarded topics.
        pub topics: Vec<BridgeTopic> => list("topic", BridgeTopic::default);
        /// TLS of `mqtts://` addresses.
        pub tls: Option<BridgeTls>
            => optional("tls", "TLS of mqtts addresses; false for the default values");
    }
}

settings! {
    /// The TLS settings of a bridge.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct BridgeTls {
        /// PEM file: the authorities that sign the remote broker's certificate; `None` for those of the system.
        pub authorities: Option<PathBuf>
            => key("ca", "PEM file with the authorities of the remote broker; false for those of the system");
        /// PEM file: the bridge's certificate.
        pub certificate: Option<PathBuf>
            => key("certificate", "PEM file with the certificate of the bridge");
        /// PEM file: its private key.
        pub key: Option<PathBuf> => key("key", "PEM file with the private key of the certificate");
        /// The ALPN protocol to request.
        pub alpn: Option<String> => key("alpn", "ALPN protocol to request");
    }
}

settings! {
    /// Topics that a bridge forwards.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct BridgeTopic {
        /// The topic filter, without the prefixes. Empty if the prefixes are one topic.
        pub pattern: String
            => key("pattern", "topic filter, without the prefixes; empty if each prefix is a whole topic");
        /// The direction.
        pub direction: Direction => key("direction", "direction, seen from this broker");
        /// Maximum QoS of forwarded messages.
        pub qos: u16 => range("qos", 0..=2, "highest QoS of forwarded messages");
        /// The beginning of the topics at this broker.
        pub local_prefix: String
            => key("local-prefix", "prefix of the topics at this broker, in place of remote-prefix");
        /// The beginning of the topics at the remote broker.
        pub remote_prefix: String
            => key("remote-prefix", "prefix of the topics at the remote broker, in place of local-prefix");
        /// A filter on the content of messages to the remote broker.
        pub filter: Option<String>
            => key("filter", "condition on the content of messages to the remote broker");
        /// Whether the filter tests the fields of a JSON payload.
        pub json_payload: bool
            => key("json-payload", "apply the filter to the fields of JSON payloads");
    }
}

/// The direction in which messages are forwarded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// From this broker to the remote one.
    #[default]
    Out,
    /// From the remote broker to this one.
    In,
    /// Both directions.
    Both,
}

choices! {
    Direction as Direction:
        Direction::Out = "out", Direction::In = "in", Direction::Both = "both";
}

impl Direction {
    /// Whether messages are forwarded to the remote broker.
    pub fn is_out(self) -> bool {
        self != Self::In
    }

    /// Whether messages are forwarded from the remote broker.
    pub fn is_in(self) -> bool {
        self != Self::Out
    }
}

impl BridgeTopic {
    /// The topic filter at this broker.
    pub fn local(&self) -> String {
        format!("{}{}", self.local_prefix, self.pattern)
    }

    /// The topic filter at the remote broker.
    pub fn remote(&self) -> String {
        format!("{}{}", self.remote_prefix, self.pattern)
    }
}

/// The credentials of a bridge for the remote broker, as read from its files.
#[derive(Clone)]
pub(crate) struct Credentials {
    pub(crate) password: Option<String>,
    /// Present if an address uses TLS.
    pub(crate) connector: Option<Connector>,
}

impl Bridge {
    /// Reads the password and the certificates. May block.
    ///
    /// # Errors
    /// If a file is unusable. Names the file.
    pub(crate) fn credentials(&self) -> Result<Credentials, String> {
        let password = self.password_file.as_deref().map(first_line).transpose()?;
        if self.address.iter().all(|remote| !remote.is_tls) {
            return Ok(Credentials { password, connector: None });
        }
        let BridgeTls { authorities, certificate, key, alpn } =
            self.tls.clone().unwrap_or_default();
        let identity = certificate.as_deref().zip(key.as_deref());
        let protocols: Vec<_> = alpn.iter().map(|name| name.as_bytes()).collect();
        let connector = Connector::load(authorities.as_deref(), identity, &protocols);
        let connector = connector.map_err(|error| error.to_string())?;
        Ok(Credentials { password, connector: Some(connector) })
    }
}
