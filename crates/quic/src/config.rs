//! Limits, keys and certificates, shared by all processors.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use phalanx::metrics::Counter;
use phalanx::time::time_of_day;
use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::{
    EndpointConfig, IdleTimeout, ServerConfig, TimeSource, TransportConfig, ValidationTokenConfig,
    VarInt,
};
use rustls::crypto::ring;
use rustls::server::{ProducesTickets, ResolvesServerCert};
use rustls::version::TLS13;

use crate::identifiers::Identifiers;
use crate::metrics::QuicMetrics;

/// The largest idle timeout: a larger one has no encoding.
const MAX_IDLE: Duration = Duration::from_secs(1 << 31);

/// Maximum time between two PINGs to a silent client that waits for a response. Clients often drop connections after 30
/// seconds.
const MAX_PING_INTERVAL: Duration = Duration::from_secs(10);

/// QUIC version 1 (RFC 9000).
const VERSION: u32 = 1;

/// Limits of connections.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Concurrent bidirectional streams that a client may open.
    pub streams: u32,
    /// Concurrent unidirectional streams of a client.
    pub peer_streams: u32,
    /// Bytes of a stream that a client may send before they are read.
    pub stream_window: u32,
    /// Bytes of all streams of a connection that a client may send before they are read.
    pub receive_window: u32,
    /// Maximum number of bytes that a connection buffers until they are acknowledged.
    pub send_window: u32,
    /// Bytes that every connection may buffer, even if there are many.
    pub min_send_window: u32,
    /// Bytes that all connections of a processor may buffer together. If there are many connections, each gets an equal
    /// share, but at least [`min_send_window`](Self::min_send_window).
    pub send_memory: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            streams: 128,
            peer_streams: 8,
            stream_window: 64 << 10,
            // Larger than the window of a stream, so that a few unread uploads do not stop the others.
            receive_window: 1 << 20,
            send_window: 1 << 20,
            min_send_window: 64 << 10,
            send_memory: 256 << 20,
        }
    }
}

/// Time without a datagram after which a client is sent a PING, if its connection has this idle timeout.
pub(crate) fn ping_interval(idle: Duration) -> Duration {
    (idle / 3).min(MAX_PING_INTERVAL)
}

/// The configuration of the endpoints of all processors.
#[derive(Clone)]
pub struct Config {
    endpoint: EndpointConfig,
    pub(crate) server: Arc<ServerConfig>,
    pub(crate) limits: Limits,
    pub(crate) metrics: QuicMetrics,
    seed: Option<u64>,
}

impl Config {
    /// TLS 1.3 with these certificates and session tickets, for clients that speak `protocol` (ALPN). Keys for tokens
    /// and resets are random.
    pub fn new(
        certificates: Arc<dyn ResolvesServerCert>,
        tickets: Arc<dyn ProducesTickets>,
        protocol: &[u8],
        limits: Limits,
    ) -> Self {
        let mut tls = rustls::ServerConfig::builder_with_provider(ring::default_provider().into())
            .with_protocol_versions(&[&TLS13])
            .expect("the provider has cipher suites for TLS 1.3")
            .with_no_client_auth()
            .with_cert_resolver(certificates);
        tls.alpn_protocols = vec![protocol.to_vec()];
        // An attacker could repeat early data.
        tls.max_early_data_size = 0;
        tls.ticketer = tickets;
        let tls =
            QuicServerConfig::try_from(tls).expect("the provider has the initial cipher suite");
        let mut server = ServerConfig::with_crypto(Arc::new(tls));
        // A token for a later connection would save a round trip only under load, and would require a log of used
        // tokens.
        let mut tokens = ValidationTokenConfig::default();
        tokens.sent(0);
        server.validation_token_config(tokens).time_source(Arc::new(Clock));
        // Connections are accepted or refused immediately.
        server.incoming_buffer_size(0).incoming_buffer_size_total(0);
        // `quinn-proto` also supports drafts, which are obsolete.
        let mut endpoint = EndpointConfig::default();
        endpoint.supported_versions(vec![VERSION]);
        let server = Arc::new(server);
        Self { endpoint, server, limits, metrics: QuicMetrics::new(), seed: None }
    }

    /// Derives connection identifiers and packet numbers from `seed`, for simulations. The keys of TLS stay random.
    #[must_use]
    pub fn seeded(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// The configuration of connections with this idle timeout.
    pub(crate) fn with_idle(
        server: &ServerConfig,
        limits: Limits,
        idle: Duration,
    ) -> Arc<ServerConfig> {
        let mut server = server.clone();
        server.transport_config(Arc::new(transport(limits, idle)));
        Arc::new(server)
    }

    /// The counters of all endpoints.
    pub fn counters(&self) -> impl Iterator<Item = &Counter> {
        self.metrics.all()
    }

    /// The configuration of the endpoint on `processor`, one of `processors` in a group of sockets.
    pub(crate) fn endpoint(&self, processor: u16, processors: u16) -> Arc<EndpointConfig> {
        let mut config = self.endpoint.clone();
        let seed = self.seed.map(|seed| seed ^ u64::from(processor) << 48);
        config.cid_generator(move || match seed.map(fastrand::Rng::with_seed) {
            Some(mut random) => {
                Box::new(Identifiers::new(processor, processors, move || random.u64(..)))
            }
            None => Box::new(Identifiers::new(processor, processors, secure_random)),
        });
        config.rng_seed(seed.map(|seed| {
            let mut bytes = [0; 32];
            bytes[..8].copy_from_slice(&seed.to_be_bytes());
            bytes
        }));
        Arc::new(config)
    }
}

/// A number that an observer of earlier ones cannot predict.
fn secure_random() -> u64 {
    let mut bytes = [0; 8];
    let result = ring::default_provider().secure_random.fill(&mut bytes);
    result.expect("the system has random numbers");
    u64::from_ne_bytes(bytes)
}

fn transport(limits: Limits, idle: Duration) -> TransportConfig {
    let idle = IdleTimeout::try_from(idle.min(MAX_IDLE)).expect("bounded above");
    let mut transport = TransportConfig::default();
    transport
        .max_concurrent_bidi_streams(limits.streams.into())
        .max_concurrent_uni_streams(limits.peer_streams.into())
        .stream_receive_window(VarInt::from_u32(limits.stream_window))
        .receive_window(VarInt::from_u32(limits.receive_window))
        .send_window(limits.send_window.into())
        .max_idle_timeout(Some(idle))
        // Datagrams of the application (RFC 9221) are not offered.
        .datagram_receive_buffer_size(None)
        // The sockets do not forbid fragments, so larger datagrams cannot be probed.
        .mtu_discovery_config(None);
    transport
}

/// The time of day for tokens.
struct Clock;

impl TimeSource for Clock {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + time_of_day()
    }
}
