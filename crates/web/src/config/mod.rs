//! The configuration as plain data. `crate::site` contains the compiled form, which serves requests.

mod acme;
mod host;
mod limits;
mod listen;
mod measurement;
mod proxy;
mod reload;
mod rules;
mod values;

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use phalanx::overload::Ingress;
use phalanx_http::{Limits, MAX_FIELDS};

pub use acme::{Acme, AcmeChallenge};
pub use host::{HostConfig, Symlinks, Tls, UnknownHost};
pub use limits::{AccessLog, LogFormat, LogTarget, PerAddress, SendMode, Timeouts};
pub(crate) use listen::{Arrival, ListenerKind, has_http3};
pub use listen::{Listen, Scheme};
pub use measurement::MeasurementSettings;
pub use phalanx_config::{ConfigError, Origins};
use phalanx_config::{Pass, Size, settings};
pub use phalanx_guard::{ForwardedField, Network};
pub use phalanx_service::RuntimeConfig;
use phalanx_service::redirect_port;
pub(crate) use proxy::{EXPECTED_PREFIX, is_prefix, is_target, part_of_worker};
pub use proxy::{HealthCheck, Proxy, Upstream};
pub use rules::{
    Access, Alias, Auth, CachePreset, CacheRule, Cors, HeaderRule, Redirect, RedirectStatus,
    Rewrite, SecurityHeaders, TryRule, TypeRule,
};
use values::{ForwardedFields, MaxQueueDelay, Networks};

const MILLISECOND: Duration = Duration::from_millis(1);
const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(86_400);

settings! {
    /// Configuration of a static file server.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Config {
        /// Listen addresses; at least one.
        pub listen: Vec<Listen> = vec![Scheme::Http.at((Ipv4Addr::LOCALHOST, 8080))]
            => with(listen_keys);
        /// Whether to accept HTTP/2 without TLS from clients with prior knowledge. Over TLS, clients can always
        /// negotiate HTTP/2.
        pub h2c: bool => key("h2c", "accept HTTP/2 without TLS from clients with prior knowledge");
        /// Whether to also serve HTTP/3, on the UDP ports of the addresses with TLS, and to announce it (RFC 7838).
        pub http3: bool
            => key("http3",
                "also serve HTTP/3 (QUIC), on the UDP ports of the https:// addresses, and announce it to clients \
                 with Alt-Svc");
        /// UDP port announced for HTTP/3, if it differs from the port on which the server listens.
        pub http3_port: Option<u16>
            => key("http3-port",
                "UDP port to announce for HTTP/3, if clients reach the server through a port that a firewall or \
                 container maps");
        /// Port to which `redirect-https` redirects, if it differs from the TLS port on which the server listens.
        pub https_port: Option<u16>
            => range("https-port", Some(1)..,
                "port to which redirect-https:// redirects, if clients reach TLS through a port that a firewall or \
                 container maps");
        /// File with the secret from which the keys of TLS session tickets are derived; `None` for random keys.
        pub ticket_key: Option<PathBuf>
            => key("ticket-key",
                "file with a secret of at least 32 bytes, from which the keys of TLS session tickets are derived, so \
                 that clients resume their sessions after a restart, and at other servers with the same file; false \
                 for random keys");
        /// Response to a request for a host that is not in `hosts`, if there is no default host.
        pub unknown_host: UnknownHost
            => key("unknown-host", "response to a host name that no host lists, if there is no default host");
        /// Path of the health check; `None` disables it.
        pub health: Option<String> => key("health", "path of the health check");
        /// Memory for cached file content over all processors, in bytes.
        pub cache_bytes: usize = 256 << 20
            => key_as::<Size>("cache", "memory for file contents, shared by all workers");
        /// How large files are sent over connections without TLS.
        pub send: SendMode => with(send_keys);
        @section "Limits";
        /// Maximum number of connections over all processors; further ones are closed, those without TLS after a 503.
        pub max_connections: usize = 100_000
            => range("max-connections", 1..,
                "maximum number of connections; further ones are closed, those without TLS after a 503");
        /// Networks whose connections are accepted; an empty list accepts all.
        pub allow: Vec<Network>
            => key_as::<Networks>("allow",
                "networks whose connections are accepted, such as 10.0.0.0/8 or 2001:db8::/32; if empty, all");
        /// Networks whose connections are closed, even if `allow` contains them.
        pub deny: Vec<Network>
            => key_as::<Networks>("deny",
                "networks whose connections are closed without a response, even if `allow` contains them");
        /// Networks of proxies and load balancers that are trusted to name their clients.
        pub real_ip_from: Vec<Network>
            => key_as::<Networks>("real-ip-from",
                "networks of the proxies and load balancers that are trusted to name their clients; the log, limits, \
                 allow and deny then use the address that they name");
        /// Request field in which these proxies name their clients.
        pub real_ip_field: ForwardedField
            => key_as::<ForwardedFields>("real-ip-field",
                "request field in which trusted proxies name their client; the last address in it that is not \
                 trusted is the client");
        /// Whether these proxies also name the host and the port that their clients have requested.
        pub real_ip_host: bool
            => key("real-ip-host",
                "whether to forward the host and port that trusted proxies name in `X-Forwarded-Host` and \
                 `X-Forwarded-Port` to the servers of `host.proxy`; the trusted proxies must overwrite these fields, \
                 because clients can send them too");
        /// Limits per client address.
        pub per_address: PerAddress => part();
        /// Queue delay above which requests are refused with 503
        /// ([`Ingress::Admit`]); `None` never refuses a request.
        pub max_queue_delay: Option<Duration> = Some(Ingress::DEFAULT_MAX_QUEUE_DELAY)
            => range_as::<MaxQueueDelay>("max-queue-delay", None..=Some(MINUTE),
                "queueing delay above which the server rejects requests with 503, so that it answers admitted ones \
                 within about twice this time; 0 rejects none");
        /// Limits on the size of requests.
        pub limits: Limits => with(limit_keys);
        /// Maximum number of unused large files kept open, over all processors; each occupies a descriptor.
        pub open_files: usize = 4096
            => key("max-open-files",
                "maximum number of files above 64 KiB, including precompressed ones, that are kept open; at most a \
                 quarter of the limit on descriptors");
        @section "Timeouts";
        /// Timeouts.
        pub timeouts: Timeouts => with(timeout_keys);
        @section "Access log";
        /// Access log of hosts that have no separate log; `None` disables it.
        pub access_log: Option<AccessLog>
            => optional("access-log", "log every request; true uses the defaults below");
        /// Workers, driver and other runtime settings.
        pub runtime: RuntimeConfig => table("runtime");
        @section "Automatic certificates";
        /// The authority that issues certificates for hosts without a configured certificate; `None` for none.
        pub acme: Option<Acme>
            => optional("acme",
                "obtain and renew certificates over ACME for hosts that have server-names and no host.tls");
        @section "Hosts";
        /// Virtual hosts; at least one. One of them may have no names: the default host.
        pub hosts: Vec<HostConfig> = vec![HostConfig::default()]
            => list_or_default("host", HostConfig::default, |host| host.server_names.is_empty());
        /// Seed of the hashes of the file cache. `None` draws a random seed, so that clients cannot provoke collisions;
        /// simulations set it to be repeatable. Not a key of the configuration file.
        pub hash_seed: Option<u64> => none();
        /// Settings that only measurements change. Not a key of the configuration file.
        pub measurement: MeasurementSettings => none();
    }
}

/// The keys `listen` and `include`.
fn listen_keys(config: &mut Config, pass: &mut Pass<'_, '_>) {
    let help = "listen addresses: http://ADDR:PORT, https:// for TLS, redirect-https:// to redirect clients to TLS; \
                 the prefix proxy+ expects a PROXY header on each connection; unix:/PATH is a Unix socket for its \
                 owner and group, or with ?mode=666 appended for all users; port 0 selects a free port, an address \
                 alone means http://, and a port alone 127.0.0.1; sockets passed by systemd replace this list";
    pass.key("listen", &mut config.listen, help);
    pass.include();
}

/// The keys `send` and `revalidate-interval`.
fn send_keys(config: &mut Config, pass: &mut Pass<'_, '_>) {
    let help = "how parts of files of 32 to 512 KiB are sent over HTTP/1.1 without TLS: zero-copy, unless the file \
                 has changed within the last ten seconds, or copy, for files that are written in place";
    pass.key("send", &mut config.send, help);
    let help = "age at which a cached file is checked for changes";
    pass.key("revalidate-interval", &mut config.timeouts.revalidate, help);
}

/// The limits on requests.
fn limit_keys(config: &mut Config, pass: &mut Pass<'_, '_>) {
    let limits = &mut config.limits;
    let help = "maximum size of a request line; longer ones get 414";
    pass.range_as::<Size, _>("max-request-line", &mut limits.request_line, 1.., help);
    let help = "maximum size of a request head; longer ones get 431";
    pass.range_as::<Size, _>("max-request-head", &mut limits.head, 1.., help);
    let help = "maximum number of header fields of a request; more get 431; over HTTP/2 and HTTP/3 all Cookie \
                fields count as one";
    pass.range("max-headers", &mut limits.headers, 1..=MAX_FIELDS, help);
    let help = "maximum size of a request body that is read and discarded, because no `host.proxy` applies; \
                longer ones get 413";
    pass.key_as::<Size, _>("max-request-body", &mut limits.body, help);
}

/// The timeouts of connections.
fn timeout_keys(config: &mut Config, pass: &mut Pass<'_, '_>) {
    let timeouts = &mut config.timeouts;
    for (name, time, help) in [
        ("request-timeout", &mut timeouts.request, "time to receive a request head; then 408"),
        ("handshake-timeout", &mut timeouts.handshake, "time to complete a TLS handshake"),
        ("body-timeout", &mut timeouts.body, "time to receive a request body"),
        ("idle-timeout", &mut timeouts.idle, "time between two requests of a connection"),
        (
            "send-timeout",
            &mut timeouts.send,
            "time to send each 128 KiB of a response; over HTTP/2 and HTTP/3, each 8 KiB",
        ),
    ] {
        pass.range(name, time, MILLISECOND..=DAY, help);
    }
    let help =
        "minimum average rate at which a client must read a large response, in bytes per second";
    pass.key("min-send-rate", &mut timeouts.min_send_rate, help);
}

impl Config {
    /// Serves the current directory at 127.0.0.1:8080, with one processor and a cache of 256 MiB.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether any request is logged.
    pub(crate) fn has_logs(&self) -> bool {
        self.access_logs().next().is_some()
    }

    /// All access logs.
    pub(crate) fn access_logs(&self) -> impl Iterator<Item = &AccessLog> {
        let hosts = self.hosts.iter().filter_map(|host| host.access_log.as_ref());
        self.access_log.iter().chain(hosts)
    }

    /// Descriptors needed in addition to those of clients and the fixed reserve: large files, logs, and upstream
    /// connections.
    pub(crate) fn reserved_files(&self) -> usize {
        let workers = self.runtime.workers;
        let upstream = self.hosts.iter().flat_map(|host| &host.proxies);
        let upstream = upstream.map(|proxy| proxy.max_connections(workers));
        let upstream = upstream.fold(0, usize::saturating_add);
        (self.max_open_files() + self.access_logs().count()).saturating_add(upstream)
    }

    /// Maximum number of large files kept open, if the descriptors suffice.
    pub(crate) fn max_open_files(&self) -> usize {
        phalanx_service::file_limit(self.open_files)
    }

    /// The TLS port to which other addresses redirect, unless [`https_port`](Self::https_port) is set.
    pub(crate) fn tls_port(&self) -> Option<u16> {
        let tls = self.listen.iter().filter(|listen| listen.is_tls());
        redirect_port(tls.map(|listen| listen.address))
    }

    /// Like [`Config::new`], with files from `root`.
    pub fn with_root(root: impl Into<std::path::PathBuf>) -> Self {
        Self { hosts: vec![HostConfig::new(root)], ..Self::new() }
    }
}
