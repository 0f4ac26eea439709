//! What an operator can set, as plain data.

mod check;
mod keys;
mod reload;
mod text;
mod unavailable;
mod values;

use std::path::PathBuf;
use std::time::Duration;

pub use phalanx_config::{ConfigError, Origins};
pub use phalanx_service::RuntimeConfig;

use crate::listen::Listen;

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
    /// Where it listens; at least one.
    pub listen: Vec<Listen>,
    /// Who may come in, and what for.
    pub security: Security,
    /// The directory in which sessions, queued and retained messages are kept; none to keep them in memory only. It is
    /// made if it is not there.
    pub persistence_dir: Option<PathBuf>,
    /// Whether to start though acknowledged data is missing at the end of what is kept in `persistence_dir`. Not in a file of
    /// configuration, as it is for one start.
    pub accept_loss: bool,
    /// Whether it is meant that nothing is kept, so that nobody need be told. Not together with `persistence_dir`.
    pub ephemeral: bool,
    /// What clients may use of the broker.
    pub limits: Limits,
    /// How often it tells of itself, by topics below `$SYS/broker`; zero for never.
    pub system_interval: Duration,
    /// How it is run.
    pub runtime: RuntimeConfig,
}

/// Who may come in, and what for. The files are read when the broker starts, and again at SIGHUP.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Security {
    /// The file of users and their passwords' hashes, as [`Users`](phalanx_access::Users) reads it. With one, only
    /// those are let in.
    pub password_file: Option<PathBuf>,
    /// The access list, as [`Rules`](phalanx_access::Rules) reads it. Without one, everybody who is let in may
    /// do everything.
    pub acl_file: Option<PathBuf>,
    /// The certificate of addresses with TLS.
    pub tls: Option<Tls>,
    /// The pages whose scripts may connect to a WebSocket here, as `https://example.org`; `*` stands for all. Those who
    /// are no browser do not say where they come from, and are let in.
    pub allowed_origins: Vec<String>,
    /// Whether those without a user's name are let in beside users; and, where there are no users, at
    /// addresses that others can reach.
    pub allow_anonymous: bool,
}

/// A certificate and its key. They are looked at again while the broker runs, and renewed ones are taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// PEM: the chain, the broker's own certificate first.
    pub certificate: PathBuf,
    /// PEM: its private key.
    pub key: PathBuf,
    /// PEM: authorities, one of whom must have signed each client's certificate, directly or by way of others. Who
    /// comes in by one is the user whom it names as its common name, and is asked for no password.
    pub client_authorities: Option<PathBuf>,
}

/// Bounds. Each says what happens at it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Connections at once, over all addresses and processors; of more, 256 at once are told by CONNACK that the *server is
    /// busy*, and others are closed as soon as they come, as are all over TLS.
    pub connections: usize,
    /// Of those, connections of one address (of IPv6, one network of 64 bits), if that is bounded; CONNECT is refused with
    /// *quota exceeded*, and over TLS the connection is closed.
    pub per_address: Option<u32>,
    /// Connections that one address may begin in a second, if that is bounded; CONNECT is refused with *connection
    /// rate exceeded*, and over TLS the connection is closed.
    pub connection_rate: Option<u32>,
    /// Messages that one client may publish in a second, if that is bounded, and as many at once; no more is
    /// read of it while it is ahead.
    pub message_rate: Option<u32>,
    /// Sessions, over all processors; CONNECT is refused with *quota exceeded*.
    pub sessions: usize,
    /// Subscriptions of one client; SUBSCRIBE is refused with *quota exceeded*.
    pub subscriptions: usize,
    /// Bytes of all clients' subscriptions, about, each counted as if it shared no level of its topic filter with another;
    /// SUBSCRIBE is refused with *quota exceeded*.
    pub subscription_bytes: usize,
    /// Bytes of a packet that clients may send, its header included: who sends more is disconnected with *packet too large*.
    /// 128 to 268,435,455; to 134,217,728 with [`Config::persistence_dir`], since what is kept together has a bound.
    pub packet_size: usize,
    /// Messages that may wait for one client; what comes then is dropped for it, as `when_full` says.
    pub queued_messages: usize,
    /// And their bytes.
    pub queued_bytes: usize,
    /// Which of them goes.
    pub when_full: WhenFull,
    /// Messages, each as often as it is for somebody, that may be on their way from publishers to all sessions at once, and
    /// those of one message more. No more is read of publishers while there are as many, so nothing is dropped for it.
    pub inflight_deliveries: usize,
    /// Retained messages; a publish that would add one is refused with *quota exceeded*.
    pub retained: usize,
    /// And their bytes, with the tree that they are found by.
    pub retained_bytes: usize,
    /// Bytes of all that is kept in [`Config::persistence_dir`]; what would add to it then is refused with *quota exceeded*. On the
    /// disk it is up to twice that, and 200 MB more.
    pub persistence_bytes: u64,
    /// Messages of QoS 2 that one client may have begun and not ended; it is disconnected at more with
    /// *receive maximum exceeded*.
    pub receive_maximum: u16,
    /// The longest keep-alive in seconds that a client of MQTT 5 may have; who asks for more, or for none, is told
    /// to keep to this. 0 for as long as it likes.
    pub keep_alive: u16,
    /// Aliases of topics that a client may use on a connection.
    pub topic_alias: u16,
    /// The longest time in seconds that a session outlives its connection; `u32::MAX` is for ever.
    pub session_expiry: u32,
    /// How long a client may take to say CONNECT, TLS and the upgrade to a WebSocket before it included.
    pub connect: Duration,
    /// How long a client may take for what is sent to it at once, which is 256 KiB and a message beyond at most;
    /// then its connection is closed.
    pub send: Duration,
}

/// What is dropped for a client that is slow, when as much waits for it as may.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// What comes.
    #[default]
    DropNewest,
    /// What has waited longest, as long as that is of QoS 0; otherwise what comes.
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
    /// The defaults: on 127.0.0.1:1883, on one processor.
    pub fn new() -> Self {
        Self {
            listen: vec![Listen::mqtt(([127, 0, 0, 1], 1883))],
            security: Security::default(),
            persistence_dir: None,
            accept_loss: false,
            ephemeral: false,
            limits: Limits::default(),
            system_interval: Duration::from_secs(10),
            runtime: RuntimeConfig::default(),
        }
    }
}
