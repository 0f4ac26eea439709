//! What an operator can set, as plain data.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use phalanx::Choice;

use crate::listen::Listen;

/// A broker's configuration.
///
/// ```
/// use phalanx_broker::Config;
///
/// let mut config = Config::new();
/// config.listen = vec!["127.0.0.1:1884".parse()?];
/// config.limits.packet = 64 * 1024;
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
    pub data: Option<PathBuf>,
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
    pub passwords: Option<PathBuf>,
    /// The access list, as [`Rules`](phalanx_access::Rules) reads it. Without one, everybody who is let in may
    /// do everything.
    pub access: Option<PathBuf>,
    /// The certificate of addresses with TLS.
    pub tls: Option<Tls>,
    /// The pages whose scripts may connect to a WebSocket here, as `https://example.org`; `*` stands for all. Those who
    /// are no browser do not say where they come from, and are let in.
    pub origins: Vec<String>,
    /// Whether those without a user's name are let in beside users; and, where there are no users, at
    /// addresses that others can reach.
    pub allow_anonymous: bool,
}

/// A certificate and its key. They are looked at again while the broker runs, and renewed ones are taken.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// Connections at once, over all addresses and processors; more are closed as soon as they come.
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
    /// Bytes of a packet that clients may send, its header included: who sends more is disconnected with *packet too large*.
    pub packet: usize,
    /// Messages that may wait for one client; what comes then is dropped for it, as `when_full` says.
    pub queue: usize,
    /// And their bytes.
    pub queue_bytes: usize,
    /// Which of them goes.
    pub when_full: WhenFull,
    /// Retained messages; a publish that would add one is refused with *quota exceeded*.
    pub retained: usize,
    /// And their bytes.
    pub retained_bytes: usize,
    /// Bytes of all that is kept in [`Config::data`]; what would add to it then is refused with *quota exceeded*. On the
    /// disk it is up to twice that, and 200 MB more.
    pub data_bytes: u64,
    /// Messages of QoS 2 that one client may have begun and not ended; it is disconnected at more with
    /// *receive maximum exceeded*.
    pub receive_maximum: u16,
    /// The longest keep-alive in seconds that a client of MQTT 5 may have; who asks for more, or for none, is told
    /// to keep to this. 0 for as long as it likes.
    pub keep_alive: u16,
    /// Aliases of topics that a client may use on a connection.
    pub topic_aliases: u16,
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
            packet: 1 << 20,
            queue: 10_000,
            queue_bytes: 16 << 20,
            when_full: WhenFull::default(),
            retained: 1_000_000,
            retained_bytes: 256 << 20,
            data_bytes: 8 << 30,
            receive_maximum: 1024,
            keep_alive: 0,
            topic_aliases: 64,
            session_expiry: u32::MAX,
            connect: Duration::from_secs(10),
            send: Duration::from_secs(30),
        }
    }
}

/// How the broker is run: what it takes from the machine, and how it ends.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RuntimeConfig {
    /// Processors, each with listening sockets of its own: 1 to 1024.
    pub processors: usize,
    /// How the kernel is reached.
    pub driver: Choice,
    /// Whether each processor is bound to a core.
    pub pin: bool,
    /// How long the program may finish what is under way.
    pub drain: Duration,
    /// Where the admin pages are.
    pub admin: Option<SocketAddr>,
    /// Whether signals end the program.
    pub signals: bool,
}

impl Default for RuntimeConfig {
    fn default() -> Self {
        Self {
            processors: 1,
            driver: Choice::Auto,
            pin: true,
            drain: phalanx::DEFAULT_DRAIN,
            admin: None,
            signals: true,
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
            data: None,
            limits: Limits::default(),
            system_interval: Duration::from_secs(10),
            runtime: RuntimeConfig::default(),
        }
    }

    /// What makes no sense, one sentence each; nothing if all is well.
    pub fn check(&self) -> Vec<String> {
        let mut mistakes = Vec::new();
        let mut wrong = |is: bool, what: String| {
            if is {
                mistakes.push(what);
            }
        };
        let Self { listen, security, limits, runtime, .. } = self;
        wrong(listen.is_empty(), "listen: there is no address to listen on".into());
        for listen in listen {
            let address = listen.address;
            let public = !listen.address.ip().is_loopback();
            let named = security.tls.as_ref().is_some_and(|tls| tls.client_authorities.is_some());
            let open =
                security.passwords.is_none() && !security.allow_anonymous && !(listen.tls && named);
            wrong(
                public && open,
                format!(
                    "listen: {address} can be reached by others, and whoever connects would be let in; give \
                     --passwords, listen on 127.0.0.1, or say --allow-anonymous"
                ),
            );
        }
        wrong(
            security.tls.is_none() && listen.iter().any(|listen| listen.tls),
            "listen: an address has TLS, and there is no certificate; give --tls-certificate and --tls-key"
                .into(),
        );
        wrong(
            !(1..=1024).contains(&runtime.processors),
            format!("runtime.processors: {} is not between 1 and 1024", runtime.processors),
        );
        wrong(
            !(128..=phalanx_mqtt::Frame::MAX_BODY).contains(&limits.packet),
            format!("limits.packet: {} is not between 128 and 268435455", limits.packet),
        );
        wrong(
            limits.receive_maximum == 0,
            "limits.receive_maximum: 0 would let no message in; 1 is the least".into(),
        );
        mistakes
    }
}
