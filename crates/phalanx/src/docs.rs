//! Compiles and runs the examples of the pages in `docs/` with the tests.

/// Observability.
#[doc = include_str!("../../../docs/mechanisms/observability.md")]
struct Observability;

/// The README.
#[doc = include_str!("../../../README.md")]
struct Readme;

/// The memory budget of a stage.
#[doc = include_str!("../../../docs/mechanisms/budget.md")]
struct Budget;

/// The call graph.
#[doc = include_str!("../../../docs/mechanisms/call-graph.md")]
struct CallGraph;

/// Sockets.
#[doc = include_str!("../../../docs/mechanisms/sockets.md")]
struct Sockets;

/// Placement of connections.
#[doc = include_str!("../../../docs/mechanisms/placement.md")]
struct Placement;

/// Deadlocks.
#[doc = include_str!("../../../docs/mechanisms/deadlocks.md")]
struct Deadlocks;

/// Direct calls.
#[doc = include_str!("../../../docs/mechanisms/direct-calls.md")]
struct DirectCalls;

/// Automatic cohort sizes.
#[doc = include_str!("../../../docs/mechanisms/cohort-size.md")]
struct CohortSize;

/// Thresholds.
#[doc = include_str!("../../../docs/mechanisms/thresholds.md")]
struct Thresholds;

/// Hold.
#[doc = include_str!("../../../docs/mechanisms/hold.md")]
struct Hold;

/// Coalescing.
#[doc = include_str!("../../../docs/mechanisms/coalescing.md")]
struct Coalescing;

/// Backpressure.
#[doc = include_str!("../../../docs/mechanisms/backpressure.md")]
struct Backpressure;

/// Cohort operations.
#[doc = include_str!("../../../docs/mechanisms/cohort-operations.md")]
struct CohortOperations;

/// Panics.
#[doc = include_str!("../../../docs/mechanisms/panics.md")]
struct Panics;

/// Stage policies.
#[doc = include_str!("../../../docs/mechanisms/policies.md")]
struct Policies;

/// Replicated state.
#[doc = include_str!("../../../docs/mechanisms/replicated-state.md")]
struct ReplicatedState;

/// Sessions.
#[doc = include_str!("../../../docs/mechanisms/sessions.md")]
struct Sessions;

/// Fork and join.
#[doc = include_str!("../../../docs/mechanisms/fork-join.md")]
struct ForkJoin;

/// Load balancing.
#[doc = include_str!("../../../docs/mechanisms/balancing.md")]
struct Balancing;

/// Moving partitions.
#[doc = include_str!("../../../docs/mechanisms/moving-partitions.md")]
struct MovingPartitions;
/// Coming from tokio.
#[doc = include_str!("../../../docs/coming-from-tokio.md")]
struct ComingFromTokio;

/// The wavefront.
#[doc = include_str!("../../../docs/mechanisms/wavefront.md")]
struct Wavefront;

/// Ordering of operations.
#[doc = include_str!("../../../docs/mechanisms/ordering.md")]
struct Ordering;

/// Timers.
#[doc = include_str!("../../../docs/mechanisms/timers.md")]
struct Timers;

/// Memory.
#[doc = include_str!("../../../docs/mechanisms/memory.md")]
struct Memory;

/// Cohorts.
#[doc = include_str!("../../../docs/mechanisms/cohorts.md")]
struct Cohorts;

/// Prefetching.
#[doc = include_str!("../../../docs/mechanisms/prefetch.md")]
struct Prefetch;

/// Oneshot channels.
#[doc = include_str!("../../../docs/mechanisms/oneshot.md")]
struct Oneshot;

/// Blocking stages.
#[doc = include_str!("../../../docs/mechanisms/blocking.md")]
struct Blocking;

/// Fibres.
#[cfg(feature = "fibre")]
#[doc = include_str!("../../../docs/mechanisms/fibres.md")]
struct Fibres;

/// Sending files.
#[doc = include_str!("../../../docs/mechanisms/sending-files.md")]
struct SendingFiles;

/// Lifetimes.
#[doc = include_str!("../../../docs/mechanisms/lifetimes.md")]
struct Lifetimes;

/// Simulation.
#[doc = include_str!("../../../docs/mechanisms/simulation.md")]
struct Simulation;

/// Overload control.
#[doc = include_str!("../../../docs/mechanisms/overload.md")]
struct Overload;
