//! The server's stages, in wavefront order.

use std::sync::Arc;

use phalanx::blocking::{BlockingStage, blocking};
use phalanx::stage::PartitionedCohortStage;
use phalanx::{Graph, PartitionedStage, SharedStage};
use phalanx_tls::{Certificates, TlsStages};

use crate::config::Config;
use crate::files::aggregator;
use crate::files::cache::FileCache;
use crate::log::{Log, Sink};
use crate::site::CurrentSite;

/// A cohort of operations that touch sockets: beyond this their kernel state, some 10 KiB each,
/// leaves the cache again.
const SOCKET_COHORT: usize = 64;

/// Connections that may wait for the control stage on one processor, some tens of milliseconds of
/// work. While there are more, none is accepted: those that come wait in the kernel, which costs
/// less, and where another processor may take them.
const CONTROL_QUEUE: usize = 4096;

/// What is spoken over TLS, the better first.
const PROTOCOLS: [&[u8]; 2] = [HTTP2, b"http/1.1"];
/// The name of HTTP/2 over TLS (RFC 9113 §3.2).
pub(crate) const HTTP2: &[u8] = b"h2";

/// A cohort of connections that are turned away, which is short.
const REFUSAL_COHORT: usize = 256;

/// Threads for what takes long: they share the cores with the processors.
const SLOW_THREADS: usize = 2;

/// Threads that compress files, and how many files may wait for them. How many bytes may is in
/// [`Memory`](crate::files::memory::Memory).
const COMPRESSION_THREADS: usize = 2;
const COMPRESSION_QUEUE: usize = 64;

/// Threads that find out whether passwords are right, tens of milliseconds each; and how many requests
/// may wait for them, two seconds at most.
const PASSWORD_THREADS: usize = 2;
const PASSWORD_QUEUE: usize = 64;

/// Handles on all stages; copied wherever an operation may invoke others.
#[derive(Clone, Copy)]
pub(crate) struct Stages {
    pub(crate) network: SharedStage<()>,
    /// Connections of HTTP/2. Before control, so that the requests of one turn are answered there, and
    /// leave here together when it comes back.
    pub(crate) http2: SharedStage<()>,
    pub(crate) control: SharedStage<CurrentSite>,
    pub(crate) cache: PartitionedStage<FileCache>,
    pub(crate) aggregator: PartitionedCohortStage<aggregator::Read, aggregator::Answer>,
    pub(crate) disk: SharedStage<()>,
    /// Where requests are written down, if they are.
    pub(crate) log: Option<Log>,
    /// What takes long: reading directories.
    pub(crate) slow: BlockingStage<()>,
}

/// Handles on the stages that only those need who come in. Apart, as those of [`Stages`] are held by each
/// request.
#[derive(Clone, Copy)]
pub(crate) struct AcceptStages {
    /// Tells connections that there is no room for them.
    pub(crate) refusals: SharedStage<()>,
    /// None without certificates.
    pub(crate) tls: Option<TlsStages>,
}

impl Stages {
    /// Declares all of them.
    pub(crate) fn declare(
        graph: &mut Graph,
        config: &Config,
        current: &CurrentSite,
        log: Option<Sink>,
        certificates: Option<Arc<Certificates>>,
    ) -> (Self, AcceptStages) {
        let partitions = config.runtime.workers * phalanx::stage::DEFAULT_PARTITIONS_PER_PROCESSOR;
        let budget = config.cache_bytes / partitions;
        let open = config.open_files.div_ceil(partitions);
        // What it does is begun by the driver for a whole turn at once, whoever asks for it: so it is
        // a part of the connection that asks, and no operation that would be queued.
        let network = graph.stage("network").max_cohort(SOCKET_COHORT).direct().shared(());
        let refusals = graph.stage("refusals").max_cohort(REFUSAL_COHORT).shared(());
        let tls = certificates
            .map(|certificates| TlsStages::declare(graph, certificates, &PROTOCOLS, None));
        let http2 = graph.stage("streams").max_cohort(SOCKET_COHORT).shared(());
        let control = graph
            .stage("control")
            .max_cohort(SOCKET_COHORT)
            .capacity(CONTROL_QUEUE)
            .shared(current.clone());
        let cache = graph
            .stage("file cache")
            .partitions(partitions)
            .partitioned(move |_| FileCache::new(budget, open));
        let aggregator = graph.keep("aggregator");
        let disk = graph.shared("disk", ());
        let slow = blocking(graph, "slow").threads(SLOW_THREADS).state(());
        let compression = blocking(graph, "compression")
            .threads(COMPRESSION_THREADS)
            .queue(COMPRESSION_QUEUE)
            .state(());
        let passwords =
            blocking(graph, "passwords").threads(PASSWORD_THREADS).queue(PASSWORD_QUEUE).state(());
        let aggregator = graph
            .stage_at(aggregator)
            .partitioned_cohort(|_| (), move |(), cohort| aggregator::gather(disk, cohort));
        let log = match (log, &config.access_log) {
            (Some(sink), Some(wanted)) => Some(Log::declare(graph, wanted.format, sink, disk)),
            _ => None,
        };
        let stages = Self { network, http2, control, cache, aggregator, disk, slow, log };
        current.load().has_blocking_stages(passwords, compression);
        (stages, AcceptStages { refusals, tls })
    }
}
