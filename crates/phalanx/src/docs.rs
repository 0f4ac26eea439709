//! The examples of the pages in `docs/` are compiled and run with the tests.

/// The README.
#[doc = include_str!("../../../README.md")]
struct Readme;

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

/// What a cohort is, and when it pays.
#[doc = include_str!("../../../docs/mechanisms/cohorts.md")]
struct Cohorts;

/// Prefetches within a cohort.
#[doc = include_str!("../../../docs/mechanisms/prefetch.md")]
struct Prefetch;
