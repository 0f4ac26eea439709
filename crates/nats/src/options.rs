//! The settings and the metrics of a client.

use std::rc::Rc;
use std::time::Duration;

use phalanx::metrics::Counter;
use phalanx_tls::Connector;

use crate::address::ServerAddress;

/// The settings of a [`Client`](crate::Client).
#[derive(Clone)]
pub struct Options {
    /// The servers, and the credentials for them.
    pub access: Access,
    /// The client's name, as NATS shows it.
    pub name: String,
    /// Timeout from the first packet to the server's acceptance.
    pub connect_timeout: Duration,
    /// Interval of pings while nothing arrives. A server that answers neither of two pings is considered lost.
    pub ping_interval: Duration,
    /// Time limit for a server to read the data of one write; otherwise it is considered lost.
    pub write_timeout: Duration,
    /// Delay after the first failure, and the longest one.
    pub reconnect_delay: (Duration, Duration),
    /// Time after the start of shutdown in which messages are still sent, unless the client is stopped.
    pub linger: Duration,
    /// Maximum size of unsent messages, in bytes.
    pub max_pending: usize,
    /// Counts messages.
    pub metrics: Metrics,
    /// Called for each connection, and with the error for its end and for each failed attempt.
    pub on_state: OnState,
    /// Called for errors that do not end the connection, such as a subject that is not permitted.
    pub on_error: Rc<dyn Fn(&str)>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            access: Access::default(),
            name: "phalanx".into(),
            connect_timeout: Duration::from_secs(5),
            ping_interval: Duration::from_secs(5),
            write_timeout: Duration::from_secs(15),
            reconnect_delay: (Duration::from_millis(100), Duration::from_secs(5)),
            linger: Duration::from_secs(1),
            max_pending: 8 << 20,
            metrics: Metrics::default(),
            on_state: Rc::new(|_| ()),
            on_error: Rc::new(|_| ()),
        }
    }
}

/// The servers, and the credentials for them, of each attempt to connect.
#[derive(Clone, Default)]
pub struct Access {
    /// The servers of one NATS cluster, tried in this order. After one is lost, the next one is tried first.
    pub servers: Vec<ServerAddress>,
    /// The credentials for servers whose URL has none.
    pub credentials: Credentials,
    /// Encrypts connections to `tls://` addresses and to servers that require TLS.
    pub connector: Option<Connector>,
}

/// Credentials of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Credentials {
    /// Nothing.
    #[default]
    None,
    /// A user and a password.
    User(String, String),
    /// A token.
    Token(String),
}

/// A function that observes connections.
pub type OnState = Rc<dyn Fn(Result<&ServerAddress, String>)>;

/// Counters of a client.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// Messages received.
    pub received: Counter,
    /// Messages sent.
    pub sent: Counter,
    /// Messages that were not sent: without a connection, beyond a limit, or when the connection was lost.
    pub dropped: Counter,
    /// Connections made.
    pub connections: Counter,
}

impl Default for Metrics {
    fn default() -> Self {
        let counter = Counter::new;
        Self {
            received: counter("nats_messages_received", "Messages received from NATS."),
            sent: counter("nats_messages_sent", "Messages sent to NATS."),
            dropped: counter("nats_messages_dropped", "Messages that could not be sent to NATS."),
            connections: counter("nats_connections", "Connections made to NATS."),
        }
    }
}
