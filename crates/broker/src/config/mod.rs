//! The configuration of a broker, as plain data.

mod auth_http;
pub(crate) mod bridge;
mod check;
pub(crate) mod cluster;
mod jwt;
mod keys;
mod listener;
mod reload;
mod unavailable;
mod values;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use auth_http::{AuthHttp, BodyFormat};
pub use bridge::{Bridge, BridgeTls, BridgeTopic, Direction, Remote};
pub use cluster::{Cluster, NatsServer};
pub use jwt::JwtConfig;
pub use listener::{ListenerConfig, LoginMethod, Protocol};
pub use phalanx_config::{ConfigError, Origins};
pub use phalanx_service::RuntimeConfig;
use phalanx_tls::{CertificateError, Clients, Source};

pub(crate) use unavailable::weak_passwords;

use crate::events::{EventClass, EventLog, LogFormat};
use crate::listen::{Listen, Scheme};

/// Maximum packet size with persistence, in bytes: an entry of the journal is limited.
pub(crate) const MAX_DURABLE_PACKET: usize = 128 << 20;

/// A broker's configuration.
///
/// ```
/// use phalanx_broker::Config;
///
/// let mut config = Config::new();
/// config.listen = vec!["127.0.0.1:1884".parse()?];
/// config.limits.packet_size = 64 * 1024;
/// assert!(config.check().is_empty());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// Addresses to listen on; at least one.
    pub listen: Vec<Listen>,
    /// Settings of some of these addresses.
    pub listeners: Vec<ListenerConfig>,
    /// Authentication, authorization and TLS.
    pub security: Security,
    /// The directory that stores sessions, queued messages and retained messages; `None` keeps them in memory
    /// only. It is created if missing.
    pub persistence_dir: Option<PathBuf>,
    /// Whether to start although acknowledged data is missing at the end of the journal in `persistence_dir`, or NATS has later
    /// changes of the kept sessions. It applies to one start, so it is not a key of the configuration file.
    pub accept_loss: bool,
    /// Whether state in memory is intended, so that the broker does not warn about it. Excludes
    /// `persistence_dir`.
    pub ephemeral: bool,
    /// Whether subscriptions may have content filters. Otherwise `?` and `$where` have no meaning in topic filters, and the
    /// user properties of SUBSCRIBE are ignored.
    pub content_filters: bool,
    /// Limits on the resources that clients use.
    pub limits: Limits,
    /// Connections to other brokers.
    pub bridges: Vec<Bridge>,
    /// The cluster that this broker is a node of.
    pub cluster: Cluster,
    /// Interval between publications below `$SYS/broker`; zero disables them.
    pub system_interval: Duration,
    /// The event log.
    pub log: LogConfig,
    /// Settings of the runtime.
    pub runtime: RuntimeConfig,
    /// Determines the identifiers that the broker assigns, for simulations. `None` for random ones, which clients cannot
    /// guess. It is not a key of the configuration file.
    pub seed: Option<u64>,
}

/// The event log: a line on stderr for each event of the enabled classes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogConfig {
    /// The enabled classes; none by default.
    pub events: Vec<EventClass>,
    /// The format of the lines.
    pub format: LogFormat,
    /// Maximum number of lines of each class per second. Further events are counted, and their number is logged.
    pub rate: u32,
}

impl LogConfig {
    /// Applies these settings to a running log.
    pub(crate) fn apply(&self, log: &EventLog) {
        log.configure(&self.events, self.format, self.rate);
    }
}

impl Default for LogConfig {
    fn default() -> Self {
        Self { events: Vec::new(), format: LogFormat::default(), rate: 100 }
    }
}

/// Authentication, authorization and TLS. The files are read at the start and again on SIGHUP.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Security {
    /// The password file, in the format of [`Users`](phalanx_access::Users). If set, clients have to
    /// authenticate.
    pub password_file: Option<PathBuf>,
    /// The access list, in the format of [`Rules`](phalanx_access::Rules). Without one, authenticated clients
    /// may do everything.
    pub acl_file: Option<PathBuf>,
    /// The certificate of addresses with TLS.
    pub tls: Option<Tls>,
    /// Accepted versions of MQTT. CONNECT of another version is rejected with *unsupported protocol version*.
    pub protocols: Vec<Protocol>,
    /// Accepted ways to log in, as far as they are configured.
    pub logins: Vec<LoginMethod>,
    /// Whether the common name of a client's certificate is its user name, without a password. Otherwise clients log
    /// in like those without a certificate.
    pub certificate_user: bool,
    /// Whether the client identifier of a client with a user name is that name, whatever CONNECT says.
    pub user_as_client_id: bool,
    /// Origins of web pages that may connect by WebSocket, such as `https://example.org`; `*` allows all.
    /// Clients that are not browsers send no origin and are always allowed.
    pub allowed_origins: Vec<String>,
    /// The token of operators: the first line of the file. It allows them to use the admin API on the address of
    /// [`RuntimeConfig::admin`]; without it, the API is off.
    pub admin_token_file: Option<PathBuf>,
    /// Whether clients without a user name are accepted: in addition to users, and on addresses that other
    /// machines can reach.
    pub allow_anonymous: bool,
    /// JSON Web Tokens as passwords. If set, clients have to authenticate.
    pub jwt: Option<JwtConfig>,
    /// An HTTP service that decides about logins. If set, clients have to authenticate. Excludes `password_file`.
    pub auth_http: Option<AuthHttp>,
}

impl Default for Security {
    fn default() -> Self {
        Self {
            password_file: None,
            acl_file: None,
            tls: None,
            protocols: vec![Protocol::V5, Protocol::V3],
            logins: LoginMethod::ALL.to_vec(),
            certificate_user: true,
            user_as_client_id: false,
            allowed_origins: Vec::new(),
            admin_token_file: None,
            allow_anonymous: false,
            jwt: None,
            auth_http: None,
        }
    }
}

/// A certificate and its key. The broker reloads them when the files change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// PEM file: the certificate chain, the broker's own certificate first.
    pub certificate: PathBuf,
    /// PEM file: its private key.
    pub key: PathBuf,
    /// PEM file: certificate authorities. If set, each client needs a certificate issued by one of them,
    /// directly or through intermediates. The certificate's common name is the user name; no password is
    /// required.
    pub client_authorities: Option<PathBuf>,
    /// PEM file: the revocation lists of all issuers of client certificates.
    pub client_revoked: Option<PathBuf>,
}

impl Tls {
    /// Loads the authorities of clients, if configured. May block.
    pub(crate) fn clients(&self) -> Result<Option<Clients>, CertificateError> {
        let authorities = self.client_authorities.as_deref();
        let load = |path| Clients::of_authorities(path, self.client_revoked.as_deref());
        authorities.map(load).transpose()
    }

    /// The files of the certificate.
    pub(crate) fn source(&self) -> Source {
        let Self { certificate, key, .. } = self.clone();
        Source { names: Vec::new(), certificate, key, is_awaited: false }
    }
}

/// Limits. Each field describes what happens when its limit is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Concurrent connections, over all addresses and processors. Of the connections beyond, up to 256 at a
    /// time receive CONNACK *server busy*; the others, and all over TLS, are closed immediately.
    pub connections: usize,
    /// Concurrent connections per address (for IPv6, per /64 network); `None` for no limit. Beyond it CONNECT
    /// is rejected with *quota exceeded*; over TLS the connection is closed.
    pub per_address: Option<u32>,
    /// New connections per second and address; `None` for no limit. Beyond it CONNECT is rejected with
    /// *connection rate exceeded*; over TLS the connection is closed.
    pub connection_rate: Option<u32>,
    /// Messages that a client may publish per second, with a burst of one second; `None` for no limit. The
    /// broker stops reading from a client that exceeds it.
    pub message_rate: Option<u32>,
    /// Sessions, over all processors. Beyond it CONNECT is rejected with *quota exceeded*.
    pub sessions: usize,
    /// Subscriptions per client. Beyond it SUBSCRIBE is rejected with *quota exceeded*.
    pub subscriptions: usize,
    /// Approximate memory of all subscriptions, in bytes, each counted as if it shared no topic level with
    /// another. Beyond it SUBSCRIBE is rejected with *quota exceeded*.
    pub subscription_bytes: usize,
    /// Maximum packet size that clients may send, in bytes, including the header: a client that exceeds it is
    /// disconnected with *packet too large*. 128 to 268,435,455, or to 134,217,728 with
    /// [`Config::persistence_dir`], because the size of a journal entry is limited.
    pub packet_size: usize,
    /// Queued messages per client; beyond it, messages are dropped according to `when_full`.
    pub queued_messages: usize,
    /// Bytes of the messages queued for a client and in flight to it; likewise. A larger message is queued if no other
    /// waits, and sent if no other is in flight, so up to two messages exceed the limit.
    pub queued_bytes: usize,
    /// QoS 1 and 2 messages in flight to a client, if its receive maximum is not lower; further ones are queued.
    /// Clients of MQTT 3.1.1 have no receive maximum. At least 1. Other nodes of the cluster are exempt; the limit of bytes
    /// applies to them.
    pub inflight_messages: u16,
    /// Which messages are dropped.
    pub when_full: WhenFull,
    /// Deliveries (one per message and receiver) in transit from publishers to sessions, over all clients;
    /// the deliveries of one message may exceed it. At the limit the broker stops reading from publishers;
    /// nothing is dropped.
    pub inflight_deliveries: usize,
    /// Retained messages. Beyond it, publishing a new one is rejected with *quota exceeded*.
    pub retained: usize,
    /// Memory of retained messages in bytes, including their index; likewise.
    pub retained_bytes: usize,
    /// Live data in [`Config::persistence_dir`], in bytes. Beyond it, additions are rejected with *quota
    /// exceeded*. The files take up to twice as much and 200 MB.
    pub persistence_bytes: u64,
    /// QoS 2 messages that a client of MQTT 5 may send before it releases the first; beyond it the client is
    /// disconnected with *receive maximum exceeded*. One of MQTT 3.1.1 does not learn it, and may send 65,535.
    pub receive_maximum: u16,
    /// Maximum keep-alive of MQTT 5 clients in seconds. A client that requests more, or none, is assigned
    /// this value. 0 for no maximum.
    pub keep_alive: u16,
    /// Maximum topic alias that a client may use on a connection.
    pub topic_alias: u16,
    /// Maximum session expiry interval in seconds; `u32::MAX` means that sessions may never expire.
    pub session_expiry: u32,
    /// Timeout from the connection to CONNECT, including TLS and the WebSocket upgrade.
    pub connect: Duration,
    /// Timeout for a client to receive one write, of up to 256 KiB; then its connection is closed. Longer writes have
    /// proportionally more time.
    pub send: Duration,
}

/// Which message is dropped when a client's queue is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// The arriving message.
    #[default]
    DropNewest,
    /// The oldest queued message of QoS 0; without one, the arriving message.
    DropOldest,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 100_000,
            per_address: None,
            connection_rate: None,
            message_rate: None,
            sessions: 1_000_000,
            subscriptions: 100_000,
            subscription_bytes: usize::try_from(4u64 << 30).unwrap_or(usize::MAX),
            packet_size: 1 << 20,
            queued_messages: 10_000,
            queued_bytes: 16 << 20,
            inflight_messages: 1024,
            when_full: WhenFull::default(),
            inflight_deliveries: 256 * 1024,
            retained: 1_000_000,
            retained_bytes: 512 << 20,
            persistence_bytes: 8 << 30,
            receive_maximum: 1024,
            keep_alive: 0,
            topic_alias: 64,
            session_expiry: u32::MAX,
            connect: Duration::from_secs(10),
            send: Duration::from_secs(30),
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::new()
    }
}

impl Config {
    /// The defaults: 127.0.0.1:1883, one processor.
    pub fn new() -> Self {
        Self {
            listen: vec![Scheme::Mqtt.at(([127, 0, 0, 1], 1883))],
            listeners: Vec::new(),
            security: Security::default(),
            persistence_dir: None,
            accept_loss: false,
            ephemeral: false,
            content_filters: true,
            limits: Limits::default(),
            bridges: Vec::new(),
            cluster: Cluster::default(),
            system_interval: Duration::from_secs(10),
            log: LogConfig::default(),
            runtime: RuntimeConfig::default(),
            seed: None,
        }
    }
}

/// The first line of a file that contains a secret or a name.
fn first_line(path: &Path) -> Result<String, String> {
    let text = fs::read_to_string(path);
    let text = text.map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}
