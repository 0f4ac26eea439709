//! Bridges: connections to other brokers, and the topics that they forward.

mod check;
mod keys;
mod remote;

use std::path::PathBuf;
use std::time::Duration;

use phalanx_tls::Connector;

use crate::config::first_line;
pub use remote::Remote;

/// A bridge: a connection to another broker, which this broker opens and keeps open.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bridge {
    /// The name, in the log, the metrics and the topic of its state.
    pub name: String,
    /// The remote broker's addresses. Each attempt to connect tries them in this order.
    pub address: Vec<Remote>,
    /// The forwarded topics.
    pub topics: Vec<BridgeTopic>,
    /// The client identifier at the remote broker.
    pub client_id: String,
    /// The user name at the remote broker.
    pub username: Option<String>,
    /// The file whose first line is the password at the remote broker.
    pub password_file: Option<PathBuf>,
    /// Whether the remote broker forgets the bridge's session when the bridge connects.
    pub clean_start: bool,
    /// Whether messages for the remote broker are dropped while it is away.
    pub local_clean_start: bool,
    /// The session expiry interval at the remote broker, in seconds; `u32::MAX` means never.
    pub session_expiry: u32,
    /// Keep-alive in seconds; 0 for none.
    pub keep_alive: u16,
    /// Delay before the second attempt to connect. It doubles with each further attempt.
    pub reconnect_delay: Duration,
    /// Maximum delay between attempts to connect.
    pub max_reconnect_delay: Duration,
    /// Whether a broker does not return the bridge's own messages to it.
    pub no_local: bool,
    /// Whether forwarded messages keep their retain flag.
    pub retain_as_published: bool,
    /// Whether forwarded messages carry the path of brokers, by which loops are detected.
    pub loop_detection: bool,
    /// The topic at the remote broker of the bridge's state, `1` or `0`.
    pub notification_topic: Option<String>,
    /// TLS of `mqtts://` addresses.
    pub tls: Option<BridgeTls>,
}

/// The TLS settings of a bridge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BridgeTls {
    /// PEM file: the authorities that sign the remote broker's certificate; `None` for those of the system.
    pub authorities: Option<PathBuf>,
    /// PEM file: the bridge's certificate.
    pub certificate: Option<PathBuf>,
    /// PEM file: its private key.
    pub key: Option<PathBuf>,
    /// The ALPN protocol to request.
    pub alpn: Option<String>,
}

/// Topics that a bridge forwards.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BridgeTopic {
    /// The topic filter, without the prefixes. Empty if the prefixes are one topic.
    pub pattern: String,
    /// The direction.
    pub direction: Direction,
    /// Maximum QoS of forwarded messages.
    pub qos: u16,
    /// The beginning of the topics at this broker.
    pub local_prefix: String,
    /// The beginning of the topics at the remote broker.
    pub remote_prefix: String,
    /// A filter on the content of messages to the remote broker.
    pub filter: Option<String>,
    /// Whether the filter tests the fields of a JSON payload.
    pub json_payload: bool,
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

impl Default for Bridge {
    fn default() -> Self {
        Self {
            name: String::new(),
            address: Vec::new(),
            topics: Vec::new(),
            client_id: String::new(),
            username: None,
            password_file: None,
            clean_start: false,
            local_clean_start: false,
            session_expiry: u32::MAX,
            keep_alive: 60,
            reconnect_delay: Duration::from_secs(1),
            max_reconnect_delay: Duration::from_secs(30),
            no_local: true,
            retain_as_published: true,
            loop_detection: true,
            notification_topic: None,
            tls: None,
        }
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
