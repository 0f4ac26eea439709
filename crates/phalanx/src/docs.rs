//! The examples of the pages in `docs/` are compiled and run with the tests.

/// What can be seen of a program.
#[doc = include_str!("../../../docs/mechanisms/observability.md")]
struct Observability;

/// The README.
#[doc = include_str!("../../../README.md")]
struct Readme;

/// A budget for what is under way.
#[doc = include_str!("../../../docs/mechanisms/budget.md")]
struct Budget;

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
/// How operations reach state.
#[doc = include_str!("../../../docs/mechanisms/policies.md")]
struct Policies;

/// Ending groups.
#[doc = include_str!("../../../docs/mechanisms/sessions.md")]
struct Sessions;

/// Children.
#[doc = include_str!("../../../docs/mechanisms/fork-join.md")]
struct ForkJoin;

/// Work that whoever has time takes.
#[doc = include_str!("../../../docs/mechanisms/balancing.md")]
struct Balancing;

/// Partitions that change their owner.
#[doc = include_str!("../../../docs/mechanisms/moving-partitions.md")]
struct MovingPartitions;
/// For those who know tokio.
#[doc = include_str!("../../../docs/coming-from-tokio.md")]
struct ComingFromTokio;

/// Which stage runs next.
#[doc = include_str!("../../../docs/mechanisms/wavefront.md")]
struct Wavefront;

/// Which operation runs next.
#[doc = include_str!("../../../docs/mechanisms/ordering.md")]
struct Ordering;

/// Waiting for time to pass.
#[doc = include_str!("../../../docs/mechanisms/timers.md")]
struct Timers;

/// Where operations live.
#[doc = include_str!("../../../docs/mechanisms/memory.md")]
struct Memory;

/// What a cohort is, and when it pays.
#[doc = include_str!("../../../docs/mechanisms/cohorts.md")]
struct Cohorts;

/// Prefetches within a cohort.
#[doc = include_str!("../../../docs/mechanisms/prefetch.md")]
struct Prefetch;
/// Events.
#[doc = include_str!("../../../docs/mechanisms/events.md")]
struct Events;

/// Blocking stages.
#[doc = include_str!("../../../docs/mechanisms/blocking.md")]
struct Blocking;

/// Sending files.
#[doc = include_str!("../../../docs/mechanisms/sending-files.md")]
struct SendingFiles;

/// Lifetimes.
#[doc = include_str!("../../../docs/mechanisms/lifetimes.md")]
struct Lifetimes;

/// Simulating a program.
#[doc = include_str!("../../../docs/mechanisms/simulation.md")]
struct Simulation;

/// Admission, deadlines, shedding.
#[doc = include_str!("../../../docs/mechanisms/overload.md")]
struct Overload;
