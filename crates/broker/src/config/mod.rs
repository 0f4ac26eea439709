//! The configuration of a broker, as plain data.

mod auth_http;
pub(crate) mod bridge;
mod check;
pub(crate) mod cluster;
mod jwt;
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
use phalanx_config::{Pass, Size, settings};
pub use phalanx_service::RuntimeConfig;
use phalanx_tls::{CertificateError, Clients, Source};

pub(crate) use unavailable::weak_passwords;
use values::{DropOldest, Expiry, KeepAlive};

use crate::events::{EventClass, EventLog, LogFormat};
use crate::listen::{Listen, Scheme};

const MILLISECOND: Duration = Duration::from_millis(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);

/// Maximum packet size with persistence, in bytes: an entry of the journal is limited.
pub(crate) const MAX_DURABLE_PACKET: usize = 128 << 20;

settings! {
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
        pub listen: Vec<Listen> = vec![Scheme::Mqtt.at(([127, 0, 0, 1], 1883))]
            => with(listen_keys);
        /// The directory that stores sessions, queued messages and retained messages; `None` keeps them in memory
        /// only. It is created if missing.
        pub persistence_dir: Option<PathBuf> => with(persistence_keys);
        /// Whether state in memory is intended, so that the broker does not warn about it. Excludes
        /// `persistence_dir`.
        pub ephemeral: bool => none();
        /// Whether subscriptions may have content filters. Otherwise `?` and `$where` have no meaning in topic filters,
        /// and the user properties of SUBSCRIBE are ignored.
        pub content_filters: bool = true
            => key("content-filters",
                "subscriptions may filter messages by content; false takes ? and $where in topic filters literally");
        /// Interval between publications below `$SYS/broker`; zero disables them.
        pub system_interval: Duration = Duration::from_secs(10)
            => range("sys-interval", Duration::ZERO..=DAY,
                "interval of updates to the topics below `$SYS/broker`; 0 disables them");
        /// Authentication, authorization and TLS.
        pub security: Security => part();
        /// Limits on the resources that clients use.
        pub limits: Limits => part();
        /// The event log.
        pub log: LogConfig => part();
        /// The cluster that this broker is a node of.
        pub cluster: Cluster => part();
        /// Settings of some of these addresses.
        pub listeners: Vec<ListenerConfig> => list("listener", ListenerConfig::default);
        /// Connections to other brokers.
        pub bridges: Vec<Bridge> => list("bridge", Bridge::default);
        /// Settings of the runtime.
        pub runtime: RuntimeConfig => table("runtime");
        /// Whether to start although acknowledged data is missing at the end of the journal in `persistence_dir`, or NATS
        /// has later changes of the kept sessions. It applies to one start, so it is not a key of the configuration file.
        pub accept_loss: bool => none();
        /// Determines the identifiers that the broker assigns, for simulations. `None` for random ones, which clients
        /// cannot guess. It is not a key of the configuration file.
        pub seed: Option<u64> => none();
    }
}

/// The keys `listen` and `include`.
fn listen_keys(config: &mut Config, pass: &mut Pass<'_, '_>) {
    let help = "listen addresses: mqtt://ADDR:PORT, mqtts:// for TLS, ws:// for WebSocket, wss:// for both; port 0 \
                 selects a free port, an address alone means mqtt://, and a port alone 127.0.0.1; addresses other \
                 than loopback require password-file, jwt, auth-http, allow-anonymous or, for TLS, tls.client-ca; \
                 sockets passed by systemd replace this list";
    pass.key("listen", &mut config.listen, help);
    pass.include();
}

/// The keys `persistence-dir` and `ephemeral`. Each overrides the other one of an earlier source.
fn persistence_keys(config: &mut Config, pass: &mut Pass<'_, '_>) {
    let Config { persistence_dir, ephemeral, .. } = config;
    let help = "directory of sessions, subscriptions, queued and retained messages, which survive a restart or \
                 crash; messages are acknowledged after they are on disk; created if missing";
    let stored = pass.key("persistence-dir", persistence_dir, help);
    let help =
        "keep all state in memory, the default without persistence-dir, and do not warn about it";
    match (stored, pass.key("ephemeral", ephemeral, help)) {
        (true, false) if persistence_dir.is_some() => *ephemeral = false,
        (false, true) if *ephemeral => *persistence_dir = None,
        _ => (),
    }
}

settings! {
    /// The event log: a line on stderr for each event of the enabled classes.
    #[derive(Clone, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct LogConfig {
        @section "Event log";
        /// The enabled classes; none by default.
        pub events: Vec<EventClass>
            => key("log-events", "log these events on stderr, one line each, with client, user, address and reason");
        /// The format of the lines.
        pub format: LogFormat => key("log-format", "format of these lines");
        /// Maximum number of lines of each class per second. Further events are counted, and their number is logged.
        pub rate: u32 = 100
            => range("log-rate", 1..,
                "lines of each kind of event per second; further events are counted, and their number is logged");
    }
}

impl LogConfig {
    /// Applies these settings to a running log.
    pub(crate) fn apply(&self, log: &EventLog) {
        log.configure(&self.events, self.format, self.rate);
    }
}

settings! {
    /// Authentication, authorization and TLS. The files are read at the start and again on SIGHUP.
    #[derive(Clone, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct Security {
        @section "Access";
        /// The password file, in the format of [`Users`](phalanx_access::Users). If set, clients have to
        /// authenticate.
        pub password_file: Option<PathBuf>
            => key("password-file", "require user names and passwords of this file (see phalanx passwd)");
        /// The access list, in the format of [`Rules`](phalanx_access::Rules). Without one, authenticated clients
        /// may do everything.
        pub acl_file: Option<PathBuf>
            => key("acl-file",
                "access rules for publishing and subscribing; without them, connected clients may do everything");
        /// Whether clients without a user name are accepted: in addition to users, and on addresses that other
        /// machines can reach.
        pub allow_anonymous: bool
            => key("allow-anonymous", "accept clients without a user name, from any address");
        /// Accepted ways to log in, as far as they are configured.
        pub logins: Vec<LoginMethod> = LoginMethod::ALL.to_vec()
            => key("logins", "accepted ways to log in, of those that are configured");
        /// Accepted versions of MQTT. CONNECT of another version is rejected with *unsupported protocol version*.
        pub protocols: Vec<Protocol> = vec![Protocol::V5, Protocol::V3]
            => key("protocols", "accepted versions of MQTT");
        /// Whether the common name of a client's certificate is its user name, without a password. Otherwise clients
        /// log in like those without a certificate.
        pub certificate_user: bool = true
            => key("certificate-user",
                "the common name of a client's certificate is its user name; otherwise clients with a certificate \
                 log in like others");
        /// Whether the client identifier of a client with a user name is that name, whatever CONNECT says.
        pub user_as_client_id: bool
            => key("user-as-client-id", "replace the client identifier of a client with a user name by that name");
        /// Origins of web pages that may connect by WebSocket, such as `https://example.org`; `*` allows all.
        /// Clients that are not browsers send no origin and are always allowed.
        pub allowed_origins: Vec<String>
            => key("allowed-origins",
                "origins of web pages whose scripts may connect by WebSocket, such as https://example.org; * allows \
                 all; clients other than browsers are not restricted");
        /// The token of operators: the first line of the file. It allows them to use the admin API on the address of
        /// [`RuntimeConfig::admin`]; without it, the API is off.
        pub admin_token_file: Option<PathBuf>
            => key("admin-token-file",
                "file with the token of operators, which enables the admin API at /broker of the address of \
                 runtime.admin");
        /// The certificate of addresses with TLS.
        pub tls: Option<Tls> => optional("tls", "certificate of the TLS addresses");
        /// JSON Web Tokens as passwords. If set, clients have to authenticate.
        pub jwt: Option<JwtConfig> => optional("jwt", "accept JSON Web Tokens as passwords");
        /// An HTTP service that decides about logins. If set, clients have to authenticate. Excludes `password_file`.
        pub auth_http: Option<AuthHttp>
            => optional("auth-http",
                "let an HTTP service decide about logins, instead of a password file, and about access to topics");
    }
}

settings! {
    /// A certificate and its key. The broker reloads them when the files change.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Tls {
        /// PEM file: the certificate chain, the broker's own certificate first.
        pub certificate: PathBuf
            => required("certificate",
                "PEM file with the certificate and its intermediates; a renewed file is loaded at run time");
        /// PEM file: its private key.
        pub key: PathBuf => required("key", "PEM file with the private key of the certificate");
        /// PEM file: certificate authorities. If set, each client needs a certificate issued by one of them,
        /// directly or through intermediates. The certificate's common name is the user name; no password is
        /// required.
        pub client_authorities: Option<PathBuf>
            => key("client-ca",
                "PEM file with certificate authorities: TLS clients must present a certificate signed by one of \
                 them, and its common name becomes the user name");
        /// PEM file: the revocation lists of all issuers of client certificates.
        pub client_revoked: Option<PathBuf>
            => key("client-crl",
                "PEM file with the current revocation list of each issuer of client certificates; revoked \
                 certificates are rejected");
    }
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

settings! {
    /// Limits. Each field describes what happens when its limit is reached.
    #[derive(Clone, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct Limits {
        @section "Limits";
        /// Concurrent connections, over all addresses and processors. Of the connections beyond, up to 256 at a
        /// time receive CONNACK *server busy*; the others, and all over TLS, are closed immediately.
        pub connections: usize = 100_000
            => range("max-connections", 1.., "number of connections; CONNECT is rejected beyond");
        /// Concurrent connections per address (for IPv6, per /64 network); `None` for no limit. Beyond it CONNECT
        /// is rejected with *quota exceeded*; over TLS the connection is closed.
        pub per_address: Option<u32>
            => range("max-connections-per-address", Some(1).., "concurrent connections of one address");
        /// New connections per second and address; `None` for no limit. Beyond it CONNECT is rejected with
        /// *connection rate exceeded*; over TLS the connection is closed.
        pub connection_rate: Option<u32>
            => range("max-connection-rate", Some(1).., "new connections of one address per second");
        /// Messages that a client may publish per second, with a burst of one second; `None` for no limit. The
        /// broker stops reading from a client that exceeds it.
        pub message_rate: Option<u32>
            => range("max-message-rate", Some(1).., "messages that one client may publish per second");
        /// Sessions, over all processors. Beyond it CONNECT is rejected with *quota exceeded*, also if the session would
        /// move here from another node. Sessions of bridges and nodes are not rejected, and adopted ones may exceed it.
        pub sessions: usize = 1_000_000
            => range("max-sessions", 1..,
                "number of sessions; further ones are rejected, except for those of bridges and nodes and adopted ones");
        /// Subscriptions per client. Beyond it SUBSCRIBE is rejected with *quota exceeded*.
        pub subscriptions: usize = 100_000
            => key("max-subscriptions", "subscriptions of one client");
        /// Approximate memory of all subscriptions, in bytes, each counted as if it shared no topic level with
        /// another. Beyond it SUBSCRIBE is rejected with *quota exceeded*.
        pub subscription_bytes: usize = usize::try_from(4u64 << 30).unwrap_or(usize::MAX)
            => key_as::<Size>("max-subscription-bytes",
                "approximate memory of all subscriptions, each counted as if it shared no memory with others; a \
                 content filter counts 16 times its text, and 20 bytes for each condition of its alternatives");
        /// Maximum packet size that clients may send, in bytes, including the header: a client that exceeds it is
        /// disconnected with *packet too large*. 128 to 268,435,455, or to 134,217,728 with
        /// [`Config::persistence_dir`], because the size of a journal entry is limited.
        pub packet_size: usize = 1 << 20
            => range_as::<Size>("max-packet-size", 128..=phalanx_mqtt::Frame::MAX_BODY,
                "size of a packet from a client; with persistence-dir at most 128M");
        /// Queued messages per client; beyond it, messages are dropped according to `when_full`.
        pub queued_messages: usize = 10_000
            => key("max-queued-messages",
                "messages queued for one slow or disconnected client; further ones are dropped and counted");
        /// Bytes of the messages queued for a client and in flight to it; likewise. A larger message is queued if no
        /// other waits, and sent if no other is in flight, so up to two messages exceed the limit.
        pub queued_bytes: usize = 16 << 20
            => key_as::<Size>("max-queued-bytes",
                "size of the messages queued for one client and in flight to it; one that waits alone may exceed it");
        /// QoS 1 and 2 messages in flight to a client, if its receive maximum is not lower; further ones are queued.
        /// Clients of MQTT 3.1.1 have no receive maximum. At least 1. Other nodes of the cluster are exempt; the limit
        /// of bytes applies to them.
        pub inflight_messages: u16 = 1024
            => range("max-inflight-messages", 1..,
                "QoS 1 and 2 messages in flight to one client, if its receive maximum is not lower; further ones are \
                 queued");
        /// Which messages are dropped.
        pub when_full: WhenFull
            => key_as::<DropOldest>("drop-oldest",
                "when a client's queue is full, drop its oldest QoS 0 messages instead of new messages");
        /// Deliveries (one per message and receiver) in transit from publishers to sessions, over all clients;
        /// the deliveries of one message may exceed it. At the limit the broker stops reading from publishers;
        /// nothing is dropped.
        pub inflight_deliveries: usize = 256 * 1024
            => range("max-inflight-deliveries", 1..,
                "concurrent deliveries from publishers to sessions; publishers wait beyond");
        /// Retained messages. Beyond it, publishing a new one is rejected with *quota exceeded*.
        pub retained: usize = 1_000_000 => key("max-retained", "retained messages");
        /// Memory of retained messages in bytes, including their index; likewise.
        pub retained_bytes: usize = 512 << 20
            => key_as::<Size>("max-retained-bytes", "size of the retained messages, including their index");
        /// Live data in [`Config::persistence_dir`], in bytes. Beyond it, additions are rejected with *quota
        /// exceeded*. The files take up to twice as much and 200 MB.
        pub persistence_bytes: u64 = 8 << 30
            => key_as::<Size>("max-persistence-bytes", "size of the live data in persistence-dir");
        /// QoS 2 messages that a client of MQTT 5 may send before it releases the first; beyond it the client is
        /// disconnected with *receive maximum exceeded*. One of MQTT 3.1.1 does not learn it, and may send 65,535.
        pub receive_maximum: u16 = 1024
            => range("receive-maximum", 1.., "incomplete QoS 2 messages from one client of MQTT 5");
        /// Maximum topic alias that a client may use on a connection.
        pub topic_alias: u16 = 64
            => key("max-topic-alias", "topic aliases that a client may use on one connection");
        @section "Timeouts";
        /// Timeout from the connection to CONNECT, including TLS and the WebSocket upgrade.
        pub connect: Duration = Duration::from_secs(10)
            => range("connect-timeout", MILLISECOND..=DAY,
                "time until CONNECT, including TLS and the WebSocket upgrade");
        /// Timeout for a client to receive one write, of up to 256 KiB; then its connection is closed. Longer writes
        /// have proportionally more time.
        pub send: Duration = Duration::from_secs(30)
            => range("send-timeout", MILLISECOND..=DAY, "time for a client to read 256 KiB of its output");
        /// Maximum keep-alive of MQTT 5 clients in seconds. A client that requests more, or none, is assigned
        /// this value. 0 for no maximum.
        pub keep_alive: u16
            => key_as::<KeepAlive>("max-keep-alive",
                "keep-alive of MQTT 5 clients; imposed on clients that request a longer one or none");
        /// Maximum session expiry interval in seconds; `u32::MAX` means that sessions may never expire.
        pub session_expiry: u32 = u32::MAX
            => key_as::<Expiry>("max-session-expiry", "lifetime of a session without a connection");
    }
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

impl Config {
    /// The defaults: 127.0.0.1:1883, one processor.
    pub fn new() -> Self {
        Self::default()
    }
}

/// The first line of a file that contains a secret or a name.
fn first_line(path: &Path) -> Result<String, String> {
    let text = fs::read_to_string(path);
    let text = text.map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}
