//! The server's stages, in wavefront order, and what they share.

use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use phalanx::fs::Dir;
use phalanx::{Graph, PartitionedCohortStage, PartitionedStage, SharedStage};
use phalanx_http::Limits;

use crate::config::{Config, Timeouts};
use crate::files::aggregator;
use crate::files::cache::FileCache;

/// A cohort of operations that touch sockets: beyond this their kernel state, some 10 KiB each,
/// leaves the cache again.
const SOCKET_COHORT: usize = 64;

/// Connections that may wait for the control stage on one processor, some tens of milliseconds of
/// work. While there are more, none is accepted: those that come wait in the kernel, which costs
/// less, and where another processor may take them.
const CONTROL_QUEUE: usize = 4096;

/// A cohort of refusals: they are short, and are not to wait for another turn.
const REFUSALS: usize = 256;

/// Handles on all stages; copied wherever an operation may invoke others.
#[derive(Clone, Copy)]
pub(crate) struct Stages {
    pub(crate) network: SharedStage<()>,
    /// As the network stage, for connections whose last request was refused.
    pub(crate) refusals: SharedStage<()>,
    pub(crate) control: SharedStage<Arc<Site>>,
    pub(crate) cache: PartitionedStage<FileCache>,
    pub(crate) aggregator: PartitionedCohortStage<aggregator::Read, aggregator::Answer>,
    pub(crate) disk: SharedStage<Arc<Site>>,
}

/// What all operations may read.
pub(crate) struct Site {
    pub(crate) root: Dir,
    pub(crate) limits: Limits,
    pub(crate) timeouts: Timeouts,
    pub(crate) max_connections: usize,
    pub(crate) target_wait: Option<Duration>,
    /// Files above this many bytes are streamed by blocks that are not kept.
    pub(crate) streamed: u64,
    hashing: Hashing,
}

/// How keys are made.
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
    pub(crate) fn new(config: &Config, root: Dir) -> Arc<Self> {
        Arc::new(Self {
            root,
            limits: config.limits,
            timeouts: config.timeouts,
            max_connections: config.max_connections,
            target_wait: config.target_wait,
            streamed: config.cache_bytes as u64 / 8,
            hashing: config
                .hash_seed
                .map_or_else(|| Hashing::Drawn(RandomState::new()), Hashing::Seeded),
        })
    }

    /// The key of a path: a keyed hash, so that clients cannot choose collisions.
    pub(crate) fn key(&self, path: &[u8]) -> u64 {
        self.hashing.hash(path)
    }

    /// The key of a block of a file.
    pub(crate) fn block_key(&self, file: crate::files::entry::FileId, block: u64) -> u64 {
        self.hashing.hash((file, block))
    }
}

impl Stages {
    pub(crate) fn declare(graph: &mut Graph, config: &Config, site: &Arc<Site>) -> Self {
        let partitions = config.processors * phalanx::DEFAULT_PARTITIONS_PER_PROCESSOR;
        let budget = config.cache_bytes / partitions;
        let open = config.open_files.div_ceil(partitions);
        let network = graph.stage("network").max_cohort(SOCKET_COHORT).shared(());
        // Behind the network stage, so before it on the way back: refusals leave before the answers
        // that they were refused for.
        let refusals = graph.stage("refusals").max_cohort(REFUSALS).shared(());
        let control = graph
            .stage("control")
            .max_cohort(SOCKET_COHORT)
            .capacity(CONTROL_QUEUE)
            .shared(site.clone());
        let cache = graph
            .stage("file cache")
            .partitions(partitions)
            .partitioned(move |_| FileCache::new(budget, open));
        let aggregator = graph.keep("aggregator");
        let disk = graph.shared("disk", site.clone());
        let aggregator = graph
            .stage_at(aggregator)
            .partitioned_cohort(|_| (), move |(), cohort| aggregator::gather(disk, cohort));
        Self { network, refusals, control, cache, aggregator, disk }
    }
}
