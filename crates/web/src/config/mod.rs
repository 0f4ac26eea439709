//! The configuration as plain data. `crate::site` contains the compiled form, which serves requests.

mod acme;
mod host;
mod keys;
mod limits;
mod listen;
mod proxy;
mod reload;
mod rules;
mod values;

use std::net::Ipv4Addr;
use std::time::Duration;

use phalanx::overload::Ingress;
use phalanx_http::Limits;

pub use acme::{Acme, AcmeChallenge};
pub use host::{HostConfig, Symlinks, Tls, UnknownHost};
pub use limits::{AccessLog, LogFormat, LogTarget, PerAddress, SendMode, Timeouts};
pub(crate) use listen::{Arrival, ListenerKind, has_http3};
pub use listen::{Listen, Scheme};
pub use phalanx_config::{ConfigError, Origins};
pub use phalanx_guard::{ForwardedField, Network};
pub use phalanx_service::RuntimeConfig;
use phalanx_service::redirect_port;
pub(crate) use proxy::{EXPECTED_PREFIX, is_prefix, is_target};
pub use proxy::{HealthCheck, Proxy, Upstream};
pub use rules::{
    Access, Alias, Auth, CachePreset, CacheRule, Cors, HeaderRule, Redirect, RedirectStatus,
    Rewrite, SecurityHeaders, TryRule, TypeRule,
};

/// Configuration of a static file server.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Listen addresses; at least one.
    pub listen: Vec<Listen>,
    /// Virtual hosts; at least one. One of them may have no names: the default host.
    pub hosts: Vec<HostConfig>,
    /// Response to a request for a host that is not in `hosts`, if there is no default host.
    pub unknown_host: UnknownHost,
    /// Workers, driver and other runtime settings.
    pub runtime: RuntimeConfig,
    /// Memory for cached file content over all processors, in bytes.
    pub cache_bytes: usize,
    /// Maximum number of unused large files kept open, over all processors; each occupies a descriptor.
    pub open_files: usize,
    /// Maximum number of connections over all processors; further ones are closed, those without TLS after a 503.
    pub max_connections: usize,
    /// Queue delay above which requests are refused with 503
    /// ([`Ingress::Admit`]); `None` never refuses a request.
    pub max_queue_delay: Option<Duration>,
    /// Whether to accept HTTP/2 without TLS from clients with prior knowledge. Over TLS, clients can always
    /// negotiate HTTP/2.
    pub h2c: bool,
    /// Whether to also serve HTTP/3, on the UDP ports of the addresses with TLS, and to announce it (RFC 7838).
    pub http3: bool,
    /// UDP port announced for HTTP/3, if it differs from the port on which the server listens.
    pub http3_port: Option<u16>,
    /// Port to which `redirect-https` redirects, if it differs from the TLS port on which the server listens.
    pub https_port: Option<u16>,
    /// How large files are sent over connections without TLS.
    pub send: SendMode,
    /// Limits on the size of requests.
    pub limits: Limits,
    /// Timeouts.
    pub timeouts: Timeouts,
    /// Limits per client address.
    pub per_address: PerAddress,
    /// Networks whose connections are accepted; an empty list accepts all.
    pub allow: Vec<Network>,
    /// Networks whose connections are closed, even if `allow` contains them.
    pub deny: Vec<Network>,
    /// Networks of proxies and load balancers that are trusted to name their clients.
    pub real_ip_from: Vec<Network>,
    /// Request field in which these proxies name their clients.
    pub real_ip_field: ForwardedField,
    /// Whether these proxies also name the host and the port that their clients have requested.
    pub real_ip_host: bool,
    /// Access log of hosts that have no separate log; `None` disables it.
    pub access_log: Option<AccessLog>,
    /// The authority that issues certificates for hosts without a configured certificate; `None` for none.
    pub acme: Option<Acme>,
    /// Path of the health check; `None` disables it.
    pub health: Option<String>,
    /// Seed of the hashes of the file cache. `None` draws a random seed, so that clients cannot provoke collisions;
    /// simulations set it to be repeatable. Not a key of the configuration file.
    pub hash_seed: Option<u64>,
}

impl Config {
    /// Serves the current directory at 127.0.0.1:8080, with one processor and a cache of 256 MiB.
    pub fn new() -> Self {
        Self {
            listen: vec![Scheme::Http.at((Ipv4Addr::LOCALHOST, 8080))],
            hosts: vec![HostConfig::new(".")],
            unknown_host: UnknownHost::default(),
            runtime: RuntimeConfig::default(),
            cache_bytes: 256 << 20,
            open_files: 256,
            max_connections: 100_000,
            max_queue_delay: Some(Ingress::DEFAULT_MAX_QUEUE_DELAY),
            h2c: false,
            http3: false,
            http3_port: None,
            https_port: None,
            send: SendMode::default(),
            limits: Limits::default(),
            timeouts: Timeouts::default(),
            per_address: PerAddress::default(),
            allow: Vec::new(),
            deny: Vec::new(),
            real_ip_from: Vec::new(),
            real_ip_field: ForwardedField::default(),
            real_ip_host: false,
            access_log: None,
            acme: None,
            health: None,
            hash_seed: None,
        }
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
    pub(crate) fn kept_files(&self) -> usize {
        let workers = self.runtime.workers;
        let upstream = self.hosts.iter().flat_map(|host| &host.proxies);
        let upstream = upstream.map(|proxy| proxy.max_connections(workers));
        let upstream = upstream.fold(0, usize::saturating_add);
        (self.open_files + self.access_logs().count()).saturating_add(upstream)
    }

    /// The TLS port to which other addresses redirect, unless [`https_port`](Self::https_port) is set.
    pub(crate) fn tls_port(&self) -> Option<u16> {
        let tls = self.listen.iter().filter(|listen| listen.is_tls());
        redirect_port(tls.map(|listen| listen.address))
    }

    /// As [`Config::new`], with files from `root`.
    pub fn of(root: impl Into<std::path::PathBuf>) -> Self {
        Self { hosts: vec![HostConfig::new(root)], ..Self::new() }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::new()
    }
}
