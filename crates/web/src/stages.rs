//! The server's stages, in wavefront order.

use std::sync::Arc;
use std::time::Duration;

use phalanx::blocking::blocking;
use phalanx::metrics::Times;
use phalanx::net::Resolver;
use phalanx::overload::Ingress;
use phalanx::stage::Handles;
use phalanx::{Graph, SharedStage};
use phalanx_access::declare_checks;
use phalanx_tls::{ACME_TLS, Certificates, TlsStages};

use crate::config::Config;
use crate::files::stages::FileStages;
use crate::log::Log;
use crate::site::{BlockingStages, CurrentSite};

/// Largest cohort of socket operations. Each touches about 10 KiB of kernel state; a larger cohort would
/// exceed the cache.
const SOCKET_COHORT: usize = 64;

/// Connections queued for the control stage on one processor: some tens of milliseconds of work. At this length, the
/// processor stops accepting. New connections then wait in the kernel, where waiting is cheaper and another processor
/// may accept them.
const CONTROL_QUEUE: usize = 4096;

/// ALPN protocols in order of preference. The last one is only for challenges of an ACME authority.
const PROTOCOLS: [&[u8]; 3] = [HTTP2, b"http/1.1", ACME_TLS];
/// ALPN identifier of HTTP/2 (RFC 9113 §3.2).
pub(crate) const HTTP2: &[u8] = b"h2";

/// Largest cohort of rejected connections; each needs little work.
const REFUSAL_COHORT: usize = 256;

/// Threads for slow operations; they share the cores with the processors.
const SLOW_THREADS: usize = 2;

/// Threads that compress files, and files that may wait for them. The bytes that may wait are bounded by
/// [`Memory`](crate::memory::Memory).
const COMPRESSION_THREADS: usize = 2;
const COMPRESSION_QUEUE: usize = 64;

/// Handles to all stages, copied to each operation that invokes others.
#[derive(Clone, Copy)]
pub(crate) struct Stages {
    /// Its state contains the latencies of requests, because a request ends with a write.
    pub(crate) network: SharedStage<Times>,
    /// HTTP/2 and HTTP/3 connections, and the endpoints of QUIC. This stage comes before control: the wavefront first
    /// answers the requests of a turn there and sends their responses together when it returns here.
    pub(crate) streams: SharedStage<()>,
    pub(crate) control: SharedStage<CurrentSite>,
    pub(crate) files: FileStages,
    /// Access log, if configured.
    pub(crate) log: Option<Log>,
}

/// Handles to the stages that only the accept loop needs. They are separate because every request holds a
/// [`Stages`].
#[derive(Clone, Copy, Handles)]
pub(crate) struct AcceptStages {
    /// Rejects connections above a limit.
    pub(crate) refusals: SharedStage<()>,
    /// Requests that are forwarded to upstream servers.
    pub(crate) upstream: SharedStage<()>,
    /// `None` without certificates.
    pub(crate) tls: Option<TlsStages>,
}

impl Stages {
    /// Declares all stages, and the admission control, which rejects requests above a queue delay.
    pub(crate) fn declare(
        graph: &mut Graph,
        config: &Config,
        current: &CurrentSite,
        certificates: Option<Arc<Certificates>>,
    ) -> (Self, AcceptStages) {
        let measurement = config.measurement;
        if measurement.memory_budget {
            graph.ingress(Ingress::BudgetEveryStage);
        } else if let Some(max_queue_delay) = config.max_queue_delay {
            graph.ingress(Ingress::Admit { max_queue_delay });
        }
        // The driver submits all I/O of a turn together, whichever operation requested it. Network operations
        // therefore run as part of the connection instead of being queued.
        let latency = current.load().metrics.latency().clone();
        let network = graph.stage("network").max_cohort(SOCKET_COHORT).direct().shared(latency);
        let refusals = graph.stage("refusals").max_cohort(REFUSAL_COHORT).shared(());
        let tls = certificates
            .map(|certificates| TlsStages::declare(graph, certificates, &PROTOCOLS, None));
        let streams = graph.stage("streams").max_cohort(SOCKET_COHORT).shared(());
        let control = graph.stage("control").max_cohort(SOCKET_COHORT).capacity(CONTROL_QUEUE);
        let control = match measurement.unbounded_cohorts {
            true => control.max_cohort(CONTROL_QUEUE).cohort_time(Duration::MAX),
            false => control,
        };
        let control = if measurement.memory_budget { control.entry() } else { control };
        let control = control.shared(current.clone());
        let upstream = graph.stage("upstream").max_cohort(SOCKET_COHORT).shared(());
        let files = FileStages::declare(graph, config);
        let slow = blocking(graph, "slow").threads(SLOW_THREADS).state(());
        let resolver = Resolver::declare(graph);
        let compression = blocking(graph, "compression")
            .threads(COMPRESSION_THREADS)
            .queue(COMPRESSION_QUEUE)
            .state(());
        let passwords = declare_checks(graph);
        let log = config.has_logs().then(|| Log::declare(graph, files.disk));
        let stages = Self { network, streams, control, files, log };
        let accept_stages = AcceptStages { refusals, upstream, tls };
        let blocking_stages = BlockingStages { slow, resolver, compression, passwords };
        // Listeners and their manager are network operations. A connection that ends in one of them submits its log
        // records.
        graph.calls(network, (network, control, refusals, log));
        graph.calls(refusals, ());
        // A QUIC endpoint is one of these operations. It checks certificates for changes, because it performs the
        // handshakes itself.
        graph.calls(streams, (network, streams, control, log, tls));
        graph.calls(control, (network, streams, control, log, accept_stages, passwords));
        graph.calls(control, (files.index, files.cache, files.aggregator));
        graph.calls(upstream, (network, upstream, resolver));
        graph.calls(files.cache, (files.cache, slow, compression));
        current.load().set_blocking(blocking_stages);
        (stages, accept_stages)
    }
}
