//! The compiled form of a configuration, from which requests are served.
//!
//! A [`Site`] is immutable. A reload creates another and stores it in [`CurrentSite`]. Each request is served
//! from one version.

mod alt_svc;
mod blocking;
mod current;
mod host;
mod names;
pub(crate) mod rules;

use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::net::IpAddr;
use std::ops::Index;
use std::sync::{Arc, OnceLock};

use foldhash::SharedSeed;
use foldhash::quality::SeedableRandomState;
use phalanx_access::CheckQueue;
use phalanx_acme::Challenges;
use phalanx_guard::{AddressKey, AddressRules, Addresses, Bounds, TrustedProxies, client};
use phalanx_http::{FieldBlock, Limits, Request, Status};

pub(crate) use alt_svc::{AltSvc, Place};
pub(crate) use blocking::BlockingStages;
pub(crate) use current::CurrentSite;
pub(crate) use host::{Host, HostId, Root};
pub(crate) use rules::cors::is_preflight;
pub(crate) use rules::kind::Kind;

use crate::auth::checks::Attempt;
use crate::config::{Config, PerAddress, SendMode, Timeouts, UnknownHost};
use crate::floods::Floods;
use crate::log::Logs;
use crate::memory::Memory;
use crate::metrics::HttpMetrics;
use crate::site::names::{Names, without_port};
use crate::upstream::{Group, UpstreamCounters};

/// Limits per client address.
fn bounds(limits: &PerAddress) -> Bounds {
    let PerAddress { connections, requests_per_second: per_second, burst } = *limits;
    Bounds { connections, per_second, burst }
}

/// Connections that one processor rejects at a time, fewer than the descriptors kept in reserve for it.
const MAX_REJECTIONS: usize = 128;

/// State that all operations may read.
pub(crate) struct Site {
    /// Version of the configuration; the first is 1.
    pub(crate) generation: u64,
    /// In the order of [`Config::hosts`].
    hosts: Vec<Arc<Host>>,
    /// The next unused host number.
    next_host: u32,
    per_address: PerAddress,
    names: Names,
    /// Access logs.
    pub(crate) logs: Arc<Logs>,
    /// Response for an unknown host.
    pub(crate) unknown_host: Status,
    /// Whether HTTP/2 without TLS is accepted.
    pub(crate) h2c: bool,
    /// Announces HTTP/3 in every response over TLS; the same in all versions.
    alt_svc: OnceLock<AltSvc>,
    /// The port of redirects to TLS; `None` for the port of a TLS address.
    pub(crate) https_port: Option<u16>,
    /// How large files are sent.
    pub(crate) send: SendMode,
    pub(crate) limits: Limits,
    pub(crate) timeouts: Timeouts,
    /// Limit over all processors.
    pub(crate) max_connections: usize,
    /// Connections that one processor rejects at a time.
    pub(crate) max_rejections: usize,
    /// Limits per client address; `None` without limits.
    pub(crate) addresses: Option<Arc<Addresses>>,
    /// Addresses that may connect; `None` admits all.
    pub(crate) address_rules: Option<AddressRules>,
    /// Proxies that name their clients; `None` if none is trusted.
    pub(crate) proxies: Option<TrustedProxies>,
    /// Whether these proxies also name the host and port that their clients have requested.
    pub(crate) proxies_name_host: bool,
    /// Challenges of an ACME authority; the same in all versions.
    pub(crate) challenges: Challenges,
    /// Path of the health check.
    pub(crate) health: Option<Box<str>>,
    /// Blocking stages; the same in all versions. Not in `Stages`, because every request holds one.
    blocking: OnceLock<BlockingStages>,
    /// Password checks that wait; the same in all versions.
    pub(crate) checks: Arc<CheckQueue<Attempt>>,
    /// Memory limits for content; the same in all versions.
    pub(crate) memory: Memory,
    /// Counters of closed HTTP/2 connections; the same in all versions.
    pub(crate) floods: Floods,
    pub(crate) http3_floods: Floods,
    /// Metrics of requests and connections; the same in all versions.
    pub(crate) metrics: HttpMetrics,
    /// Whether any host forwards requests to other servers.
    pub(crate) has_upstreams: bool,
    /// Whether any host has rules about addresses or passwords, so that the addresses of clients are needed.
    pub(crate) has_protected: bool,
    /// Metrics of upstream servers; the same in all versions.
    pub(crate) upstreams: UpstreamCounters,
    /// Size in bytes above which files are streamed in blocks that are not cached.
    pub(crate) streamed: u64,
    hashing: Hashing,
    /// Hash of path keys. A fast hash is sufficient: only keys of existing files stay in the table, so
    /// clients cannot crowd it.
    paths: SeedableRandomState,
}

/// Index of a host in its [`Site`].
#[derive(Clone, Copy)]
pub(crate) struct HostIndex(u32);

impl Index<HostIndex> for Site {
    type Output = Arc<Host>;

    fn index(&self, HostIndex(index): HostIndex) -> &Arc<Host> {
        &self.hosts[index as usize]
    }
}

/// Keyed hash for blocks, client addresses, tags and boundaries.
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

/// Compiles the hosts of a configuration, and takes unchanged ones and unchanged groups of servers from `old`. The number
/// of the first host is `first`.
fn compile_hosts(
    config: &Config,
    roots: Vec<Root>,
    first: u32,
    old: &[Arc<Host>],
) -> Vec<Arc<Host>> {
    let unchanged = config.hosts.iter().zip(&roots);
    let unchanged = unchanged.map(|(host, root)| old.iter().find(|other| other.is(host, root)));
    let unchanged: Vec<_> = unchanged.collect();
    let is_kept = |host: &Arc<Host>| unchanged.iter().flatten().any(|kept| Arc::ptr_eq(kept, host));
    let changed = old.iter().filter(|host| !is_kept(host));
    let mut groups = changed.flat_map(|host| host.upstreams.iter().cloned()).collect();
    let mut hosts = Vec::new();
    for ((host, root), same) in config.hosts.iter().zip(roots).zip(unchanged) {
        let id = HostId(first + hosts.len() as u32);
        hosts.push(same.cloned().unwrap_or_else(|| {
            Arc::new(Host::new(id, host.clone(), root, (config.runtime.workers, &mut groups)))
        }));
    }
    hosts
}

impl Site {
    /// Compiles a configuration with its `logs`; `roots` are the directories of its hosts, in order. Takes over the unchanged
    /// parts of an `old` version, so that cached files stay valid.
    pub(crate) fn new(
        config: &Config,
        roots: Vec<Root>,
        logs: Arc<Logs>,
        old: Option<&Self>,
    ) -> Arc<Self> {
        assert_eq!(config.hosts.len(), roots.len(), "one root for each host");
        let first = old.map_or(0, |old| old.next_host);
        let hosts = compile_hosts(config, roots, first, old.map_or(&[], |old| &old.hosts));
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
            hosts,
            next_host: first + config.hosts.len() as u32,
            per_address: config.per_address,
            names: Names::new(config),
            logs,
            unknown_host: match config.unknown_host {
                UnknownHost::NotFound => Status::NotFound,
                UnknownHost::First | UnknownHost::Misdirected => Status::MisdirectedRequest,
            },
            h2c: config.h2c,
            alt_svc: old.map(|old| old.alt_svc.clone()).unwrap_or_default(),
            https_port: config.https_port,
            send: config.send,
            limits: config.limits,
            timeouts: config.timeouts,
            max_connections: config.max_connections,
            max_rejections: (config.max_connections / config.runtime.workers / 8)
                .clamp(4, MAX_REJECTIONS),
            addresses,
            address_rules: AddressRules::new(&config.allow, &config.deny),
            proxies: TrustedProxies::new(&config.real_ip_from, config.real_ip_field),
            proxies_name_host: config.real_ip_host,
            challenges: old.map_or_else(Challenges::default, |old| old.challenges.clone()),
            health: config.health.as_deref().map(Into::into),
            blocking: old.map(|old| old.blocking.clone()).unwrap_or_default(),
            checks: old.map(|old| old.checks.clone()).unwrap_or_default(),
            memory: old.map_or_else(|| Memory::new(config.cache_bytes), |old| old.memory.clone()),
            floods: old.map_or_else(Floods::http2, |old| old.floods.clone()),
            http3_floods: old.map_or_else(Floods::http3, |old| old.http3_floods.clone()),
            has_upstreams: config.hosts.iter().any(|host| !host.proxies.is_empty()),
            has_protected: config
                .hosts
                .iter()
                .any(|host| !host.access.is_empty() || !host.auth.is_empty()),
            upstreams: old.map_or_else(UpstreamCounters::new, |old| old.upstreams.clone()),
            metrics: old.map_or_else(HttpMetrics::new, |old| old.metrics.clone()),
            streamed: config.cache_bytes as u64 / 8,
            hashing,
            paths,
        })
    }

    /// Sets the announcement of HTTP/3; called once, for the first version.
    pub(crate) fn set_alt_svc(&self, alt_svc: AltSvc) {
        let _ = self.alt_svc.set(alt_svc);
    }

    /// The announcement of HTTP/3.
    pub(crate) fn alt_svc(&self) -> &AltSvc {
        self.alt_svc.get_or_init(AltSvc::default)
    }

    /// Sets the blocking stages; called once, for the first version.
    pub(crate) fn set_blocking(&self, stages: BlockingStages) {
        let _ = self.blocking.set(stages);
    }

    /// The blocking stages; `None` before the server has declared them.
    pub(crate) fn blocking(&self) -> Option<&BlockingStages> {
        self.blocking.get()
    }

    /// The groups of servers to which requests are forwarded.
    pub(crate) fn groups(&self) -> impl Iterator<Item = &Arc<Group>> {
        self.hosts.iter().flat_map(|host| &host.upstreams)
    }

    /// Finds the host for this authority. Returns `None` if it is unknown and no other host answers for it.
    #[inline]
    pub(crate) fn host(&self, authority: Option<&str>) -> Option<HostIndex> {
        self.names.find(authority).map(|index| HostIndex(index as u32))
    }

    /// The fields of all responses of a host over TLS; `None` without TLS or fields.
    pub(crate) fn transport_fields(&self, host: HostIndex, is_tls: bool) -> Option<&FieldBlock> {
        is_tls.then(|| &self[host].rules.tls).filter(|fields| !fields.is_empty())
    }

    /// The name under which a client that requested `authority` reaches the same host over TLS. An unknown
    /// name is returned only if the default host answers for every name, because a client must not choose the
    /// target of a redirect.
    ///
    /// # Errors
    /// The status of the response if there is no such name.
    pub(crate) fn redirect_name<'a>(
        &'a self,
        authority: Option<&'a str>,
    ) -> Result<&'a str, Status> {
        let Some(index) = self.host(authority) else { return Err(self.unknown_host) };
        let own = &self[index].config.server_names;
        match authority {
            Some(name) if own.is_empty() || self.names.has(name) => Ok(without_port(name)),
            // The first host answers for unknown names, under its own name.
            _ => match (own.iter().find(|name| !name.starts_with('*')), authority) {
                (Some(name), _) => Ok(name),
                (None, Some(_)) => Err(self.unknown_host),
                // HTTP/1.0 does not require a host.
                (None, None) => Err(Status::BadRequest),
            },
        }
    }

    /// The logs, and the number of the host of a request.
    pub(crate) fn logs(&self, request: &Request<'_>) -> (&Arc<Logs>, Option<usize>) {
        (&self.logs, self.names.find(request.host))
    }

    /// Cache key of a host's path.
    pub(crate) fn key(&self, host: HostId, path: &[u8]) -> u64 {
        self.paths.hash_one((host, path))
    }

    /// Whether a client with this address is admitted.
    pub(crate) fn admits(&self, address: IpAddr) -> bool {
        self.address_rules.as_ref().is_none_or(|rules| rules.admits(address))
    }

    /// Whether this is the address of a proxy that is trusted to name its clients.
    pub(crate) fn trusts(&self, address: IpAddr) -> bool {
        self.proxies.as_ref().is_some_and(|proxies| proxies.trusts(address))
    }

    /// Whether this address is limited. Addresses of trusted proxies are not.
    pub(crate) fn limits(&self, address: IpAddr) -> bool {
        self.addresses.is_some() && !self.trusts(address)
    }

    /// Whether addresses of connections are needed for anything but the log.
    pub(crate) fn needs_addresses(&self) -> bool {
        self.addresses.is_some() || self.address_rules.is_some() || self.proxies.is_some()
    }

    /// Key of a client address.
    pub(crate) fn address_key(&self, address: IpAddr) -> AddressKey {
        AddressKey::new(self.hashing.hash(client(address)))
    }

    /// A tag for bytes: their hash.
    pub(crate) fn tag(&self, bytes: &[u8]) -> u64 {
        self.hashing.hash(bytes)
    }

    /// A multipart boundary for the content with this tag. It is a keyed hash, so the content cannot contain it on
    /// purpose.
    pub(crate) fn boundary(&self, etag: &str) -> u128 {
        let half = |half: u8| u128::from(self.hashing.hash((half, etag)));
        half(0) << 64 | half(1)
    }

    /// Cache key of something other than a path.
    pub(crate) fn cache_key(&self, value: impl Hash) -> u64 {
        self.hashing.hash(value)
    }
}

#[cfg(test)]
mod tests {
    use phalanx_testkit::authority::Authority;

    use super::*;
    use crate::config::Proxy;

    #[test]
    fn unchanged_groups_of_servers_stay() {
        let (home, authority) = (tempfile::tempdir().unwrap(), Authority::new());
        let ca = home.path().join("ca.pem");
        std::fs::copy(authority.certificate(), &ca).unwrap();
        let rule = |prefix: &str, to: &str| {
            let (prefix, to) = (prefix.to_owned(), vec![to.parse().unwrap()]);
            Proxy { prefix, to, ..Proxy::default() }
        };
        let mut config = Config::with_root(home.path());
        let tls = Proxy { authorities: Some(ca.clone()), ..rule("/b", "https://b") };
        config.hosts[0].proxies = vec![rule("/a", "http://a"), tls];
        let site = |config: &Config, old: Option<&Site>| {
            let logs = Logs::open(config, None).unwrap();
            Site::new(config, Root::open_all(config).unwrap(), logs, old)
        };
        let same = |site: &Site, other: &Site| {
            let pairs = site.groups().zip(other.groups());
            pairs.map(|(one, other)| Arc::ptr_eq(one, other)).collect::<Vec<_>>()
        };
        let first = site(&config, None);
        let second = site(&config, Some(&first));
        assert!(Arc::ptr_eq(&first.hosts[0], &second.hosts[0]), "nothing has changed");
        // Another key of the host, and the same authorities.
        config.hosts[0].listing = true;
        let third = site(&config, Some(&second));
        assert!(!Arc::ptr_eq(&second.hosts[0], &third.hosts[0]));
        assert_eq!(same(&second, &third), [true, true]);
        // Other authorities in the same file, and two rules that are equal.
        std::fs::copy(Authority::new().certificate(), &ca).unwrap();
        config.hosts[0].proxies.push(rule("/a", "http://a"));
        let fourth = site(&config, Some(&third));
        assert_eq!(same(&third, &fourth), [true, false]);
        let groups: Vec<_> = fourth.groups().collect();
        assert!(!Arc::ptr_eq(groups[0], groups[2]), "each rule has its own");
    }
}
