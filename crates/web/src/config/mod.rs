//! What an operator can set, as plain data. The compiled form that requests are answered from is in
//! `crate::site`.

mod check;
mod file;
mod host;
mod limits;
mod reload;
mod rules;
mod unavailable;

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use phalanx_http::Limits;

pub use host::{HostConfig, Symlinks, Tls, UnknownHost};
pub use limits::{AccessLog, LogFormat, LogTarget, PerAddress, Timeouts};
pub use phalanx_config::{ConfigError, Origins, amount};
pub use phalanx_service::RuntimeConfig;
pub use rules::{
    Auth, CacheRule, Cors, HeaderRule, Redirect, RedirectStatus, Rewrite, SecurityHeaders, TypeRule,
};

/// How to serve files: where, for which hosts, within which limits.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Where to listen; at least one.
    pub listen: Vec<Listen>,
    /// The hosts; at least one. One of them may have no names: the default host.
    pub hosts: Vec<HostConfig>,
    /// What is answered to a request for a host that none of `hosts` has the name of, if none of
    /// them is the default.
    pub unknown_host: UnknownHost,
    /// How many processors, with which driver.
    pub runtime: RuntimeConfig,
    /// Bytes of file content kept in memory, over all processors.
    pub cache_bytes: usize,
    /// Large files kept open, over all processors: the most descriptors that are held without being
    /// used at the moment.
    pub open_files: usize,
    /// The most connections at once, over all processors; more are answered with 503 and closed.
    pub max_connections: usize,
    /// How long work may wait before requests are refused with 503
    /// ([`Admission::with_target`](phalanx::overload::Admission::with_target)); none never refuses any.
    pub max_queue_delay: Option<Duration>,
    /// Whether HTTP/2 is spoken without TLS, to clients that begin with it ("prior knowledge"). With
    /// TLS it always is, to those who want it.
    pub h2c: bool,
    /// Limits on requests.
    pub limits: Limits,
    /// Limits on waiting.
    pub timeouts: Timeouts,
    /// Limits on what one address may do.
    pub per_address: PerAddress,
    /// Whether and where requests are logged.
    pub access_log: Option<AccessLog>,
    /// The path that answers whether the server is well; none for no such path.
    pub health: Option<String>,
    /// What the hashes that place files in the cache begin with. None draws it, as it should be
    /// where clients are not to choose collisions; a simulation gives it, to be repeatable. It is
    /// no key of a configuration file.
    pub hash_seed: Option<u64>,
}

/// An address to listen on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listen {
    /// Port 0 takes a free one.
    pub address: SocketAddr,
    /// Whether connections there are TLS: by the certificates of the hosts.
    pub tls: bool,
    /// Whether all that is asked there is answered with a redirect to the first address with TLS.
    /// Not together with `tls`.
    pub redirect_https: bool,
}

impl Listen {
    /// Without TLS.
    pub fn plain(address: impl Into<SocketAddr>) -> Self {
        Self { address: address.into(), tls: false, redirect_https: false }
    }

    /// With TLS.
    pub fn tls(address: impl Into<SocketAddr>) -> Self {
        Self { tls: true, ..Self::plain(address) }
    }

    /// Without TLS, and only to say that the server is elsewhere: where it has TLS.
    pub fn redirect_https(address: impl Into<SocketAddr>) -> Self {
        Self { redirect_https: true, ..Self::plain(address) }
    }
}

impl Config {
    /// The current directory at 127.0.0.1:8080, with one processor and a cache of 256 MiB.
    pub fn new() -> Self {
        Self {
            listen: vec![Listen::plain((Ipv4Addr::LOCALHOST, 8080))],
            hosts: vec![HostConfig::new(".")],
            unknown_host: UnknownHost::default(),
            runtime: RuntimeConfig::default(),
            cache_bytes: 256 << 20,
            open_files: 256,
            max_connections: 100_000,
            max_queue_delay: Some(phalanx::overload::DEFAULT_TARGET_WAIT),
            h2c: false,
            limits: Limits::default(),
            timeouts: Timeouts::default(),
            per_address: PerAddress::default(),
            access_log: None,
            health: None,
            hash_seed: None,
        }
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
