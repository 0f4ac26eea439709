//! What an operator can set.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use phalanx::Runtime;
use phalanx_http::Limits;

/// How to serve a directory.
#[derive(Debug)]
pub struct Config {
    /// The directory. Nothing outside of it is ever served.
    pub root: PathBuf,
    /// Where to listen; port 0 takes a free one.
    pub listen: SocketAddr,
    /// How many processors, with which driver.
    pub runtime: Runtime,
    /// As many as `runtime` has: one listening socket each.
    pub processors: usize,
    /// Bytes of file content kept in memory, over all processors.
    pub cache_bytes: usize,
    /// Large files kept open, over all processors: the most descriptors that are held without being
    /// used at the moment.
    pub open_files: usize,
    /// The most connections on each processor; more are answered with 503 and closed.
    pub max_connections: usize,
    /// How long work may wait before requests are refused with 503
    /// ([`Admission::with_target`](phalanx::Admission::with_target)); none never refuses any.
    pub target_wait: Option<Duration>,
    /// Limits on requests.
    pub limits: Limits,
    /// Limits on waiting.
    pub timeouts: Timeouts,
    /// What the hashes that place files in the cache begin with. None draws it, as it should be
    /// where clients are not to choose collisions; a simulation gives it, to be repeatable.
    pub hash_seed: Option<u64>,
}

/// How long to wait for whom.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// For the whole of a request, from its first byte; then it is answered with 408.
    pub request: Duration,
    /// For the next request on an idle connection.
    pub idle: Duration,
    /// For the client to take each piece of an answer (at most 128 KiB).
    pub send: Duration,
    /// A file in the cache is looked at again when it was not for so long.
    pub revalidate: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            request: Duration::from_secs(10),
            idle: Duration::from_secs(60),
            send: Duration::from_secs(30),
            revalidate: Duration::from_secs(1),
        }
    }
}

impl Config {
    /// The current directory at 127.0.0.1:8080, with one processor and a cache of 256 MiB.
    pub fn new() -> Self {
        Self {
            root: PathBuf::from("."),
            listen: (Ipv4Addr::LOCALHOST, 8080).into(),
            runtime: Runtime::new().processors(1),
            processors: 1,
            cache_bytes: 256 << 20,
            open_files: 256,
            max_connections: 100_000,
            target_wait: Some(phalanx::DEFAULT_TARGET_WAIT),
            limits: Limits::default(),
            timeouts: Timeouts::default(),
            hash_seed: None,
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::new()
    }
}
