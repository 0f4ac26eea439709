//! The compiled form of a configuration: what requests are answered from.
//!
//! A [`Site`] does not change. A reload makes another, and [`CurrentSite`] is where the newest is found; a
//! request is answered from one of them throughout.

mod cors;
mod current;
mod host;
mod kind;
mod names;
mod pattern;
pub(crate) mod rules;

use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::net::IpAddr;
use std::ops::Index;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use foldhash::SharedSeed;
use foldhash::quality::SeedableRandomState;
use phalanx::blocking::BlockingStage;
use phalanx_guard::{AddressKey, Addresses, Bounds, client};
use phalanx_http::{Limits, Status};

pub(crate) use current::CurrentSite;
pub(crate) use host::{Host, HostId, Root};
pub(crate) use kind::Kind;

use crate::config::{Config, PerAddress, Timeouts, UnknownHost};
use crate::files::entry::FileId;
use crate::files::memory::Memory;
use crate::site::names::{Names, without_port};

/// Sites made so far.
static SITES: AtomicU64 = AtomicU64::new(1);

/// What each address may do.
fn bounds(limits: &PerAddress) -> Bounds {
    let PerAddress { connections, requests_per_second: per_second, burst } = *limits;
    Bounds { connections, per_second, burst }
}

/// What all operations may read.
pub(crate) struct Site {
    /// Which version of the configuration this is: the first is 1.
    pub(crate) generation: u64,
    /// Tells it from all others in this process.
    pub(crate) id: u64,
    /// In the order of [`Config::hosts`].
    hosts: Vec<Arc<Host>>,
    /// The first number that no host has had.
    next_host: u32,
    per_address: PerAddress,
    names: Names,
    /// What is answered for a host that is not known.
    pub(crate) unknown_host: Status,
    /// HTTP/2 without TLS.
    pub(crate) h2c: bool,
    pub(crate) limits: Limits,
    pub(crate) timeouts: Timeouts,
    /// On each processor.
    pub(crate) max_connections: usize,
    pub(crate) max_queue_delay: Option<Duration>,
    /// Where what one address may do is limited.
    pub(crate) addresses: Option<Arc<Addresses>>,
    /// The path that says whether the server is well.
    pub(crate) health: Option<Box<str>>,
    /// Looks at passwords, which takes long on purpose. It is the same in all versions; not one of the
    /// stages' handles, as those are held by each request.
    passwords: OnceLock<BlockingStage<()>>,
    /// Compresses files, for the same reason here. Apart from what else is slow, so that no listing waits for it.
    compression: OnceLock<BlockingStage<()>>,
    /// The memory for content; the same in all versions.
    pub(crate) memory: Memory,
    /// Files above this many bytes are streamed by blocks that are not kept.
    pub(crate) streamed: u64,
    hashing: Hashing,
    /// What the keys of paths are made with. These are looked up with every request, and only those of
    /// files that there are stay: no client can make a place in a table crowded, so a quick hash does.
    paths: SeedableRandomState,
}

/// Where a host is in its [`Site`].
#[derive(Clone, Copy)]
pub(crate) struct HostIndex(u32);

impl Index<HostIndex> for Site {
    type Output = Arc<Host>;

    fn index(&self, HostIndex(index): HostIndex) -> &Arc<Host> {
        &self.hosts[index as usize]
    }
}

/// How keys are made.
#[derive(Clone)]
enum Hashing {
    Drawn(RandomState),
    Seeded(u64),
}

impl Hashing {
    fn hash(&self, value: impl Hash) -> u64 {
        match self {
            Self::Drawn(state) => state.hash_one(value),
            Self::Seeded(seed) => {
                let mut hasher = DefaultHasher::new();
                (seed, value).hash(&mut hasher);
                hasher.finish()
            }
        }
    }
}

impl Site {
    /// Compiles a configuration; `roots` are the directories of its hosts, in their order. What an
    /// `old` version has that is the same still is taken over, so that what is cached stays good.
    pub(crate) fn new(config: &Config, roots: Vec<Root>, old: Option<&Self>) -> Arc<Self> {
        assert_eq!(config.hosts.len(), roots.len(), "one root for each host");
        let first = old.map_or(0, |old| old.next_host);
        let hosts = config.hosts.iter().zip(roots).enumerate().map(|(n, (host, root))| {
            let same = |other: &&Arc<Host>| other.is(host, &root);
            match old.and_then(|old| old.hosts.iter().find(same)) {
                Some(same) => same.clone(),
                None => Arc::new(Host::new(HostId(first + n as u32), host.clone(), root)),
            }
        });
        let addresses = match old.filter(|old| old.per_address == config.per_address) {
            Some(old) => old.addresses.clone(),
            None => Addresses::new(bounds(&config.per_address)),
        };
        let drawn = || Hashing::Drawn(RandomState::new());
        let hashing = match old {
            Some(old) => old.hashing.clone(),
            None => config.hash_seed.map_or_else(drawn, Hashing::Seeded),
        };
        let paths = match old {
            Some(old) => old.paths.clone(),
            None => {
                SeedableRandomState::with_seed(hashing.hash("paths"), SharedSeed::global_fixed())
            }
        };
        Arc::new(Self {
            generation: old.map_or(1, |old| old.generation + 1),
            id: SITES.fetch_add(1, Ordering::Relaxed),
            hosts: hosts.collect(),
            next_host: first + config.hosts.len() as u32,
            per_address: config.per_address,
            names: Names::new(config),
            unknown_host: match config.unknown_host {
                UnknownHost::NotFound => Status::NotFound,
                UnknownHost::First | UnknownHost::Misdirected => Status::MisdirectedRequest,
            },
            h2c: config.h2c,
            limits: config.limits,
            timeouts: config.timeouts,
            max_connections: config.max_connections.div_ceil(config.runtime.workers),
            max_queue_delay: config.max_queue_delay,
            addresses,
            health: config.health.as_deref().map(Into::into),
            passwords: old.map(|old| old.passwords.clone()).unwrap_or_default(),
            compression: old.map(|old| old.compression.clone()).unwrap_or_default(),
            memory: old.map_or_else(|| Memory::new(config.cache_bytes), |old| old.memory.clone()),
            streamed: config.cache_bytes as u64 / 8,
            hashing,
            paths,
        })
    }

    /// Sets the blocking stages that requests do not hold handles on: once, in the first version.
    pub(crate) fn has_blocking_stages(
        &self,
        passwords: BlockingStage<()>,
        compression: BlockingStage<()>,
    ) {
        let _ = (self.passwords.set(passwords), self.compression.set(compression));
    }

    /// Compresses files.
    pub(crate) fn compression(&self) -> Option<BlockingStage<()>> {
        self.compression.get().copied()
    }

    /// Looks at passwords.
    pub(crate) fn passwords(&self) -> Option<BlockingStage<()>> {
        self.passwords.get().copied()
    }

    /// The host that answers for this authority; none if it is not known, and not to be answered
    /// for by another.
    #[inline]
    pub(crate) fn host(&self, authority: Option<&str>) -> Option<HostIndex> {
        self.names.find(authority).map(|index| HostIndex(index as u32))
    }

    /// The name under which a client that asked for `authority` reaches the same host with TLS. A name that
    /// no host has comes back only where a host without names answers for every name: a client must not
    /// choose where a redirect leads.
    ///
    /// # Errors
    /// The status to answer with where there is no such name.
    pub(crate) fn redirect_name<'a>(
        &'a self,
        authority: Option<&'a str>,
    ) -> Result<&'a str, Status> {
        let Some(index) = self.host(authority) else { return Err(self.unknown_host) };
        let own = &self[index].config.server_names;
        match authority {
            Some(name) if own.is_empty() || self.names.has(name) => Ok(without_port(name)),
            // The first host answers for names that nobody has: by its own name.
            _ => match (own.iter().find(|name| !name.starts_with('*')), authority) {
                (Some(name), _) => Ok(name),
                (None, Some(_)) => Err(self.unknown_host),
                // A request of 1.0 need not say for which host it is.
                (None, None) => Err(Status::BadRequest),
            },
        }
    }

    /// The key of a path of a host.
    pub(crate) fn key(&self, host: HostId, path: &[u8]) -> u64 {
        self.paths.hash_one((host, path))
    }

    /// The key of a client's address.
    pub(crate) fn address_key(&self, address: IpAddr) -> AddressKey {
        AddressKey::new(self.hashing.hash(client(address)))
    }

    /// A tag for bytes: their hash.
    pub(crate) fn tag(&self, bytes: &[u8]) -> u64 {
        self.hashing.hash(bytes)
    }

    /// A boundary for parts of what has this tag: nobody knows it who has not the key, so nobody
    /// can have written it into the file.
    pub(crate) fn boundary(&self, etag: &str) -> u128 {
        let half = |half: u8| u128::from(self.hashing.hash((half, etag)));
        half(0) << 64 | half(1)
    }

    /// The key of a block of a file.
    pub(crate) fn block_key(&self, file: FileId, block: u64) -> u64 {
        self.hashing.hash((file, block))
    }
}
