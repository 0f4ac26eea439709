//! Stages: handles, policies and options.
//!
//! A stage is a named module with state. [`Graph`](crate::Graph) declares stages, in the order in which a request
//! visits them, and returns a handle for each. The policy determines how operations access the state:
//!
//! | policy | declared by | state |
//! |---|---|---|
//! | shared | [`Graph::shared`](crate::Graph::shared) | one `Sync` value; operations run on the caller's processor |
//! | partitioned | [`Graph::partitioned`](crate::Graph::partitioned) | one value per partition; a key selects it, and its owner runs the operation |
//! | replicated | [`StageOptions::replicated`] | values that an owner publishes; every processor reads its own replicas |
//! | exclusive | [`Graph::exclusive`](crate::Graph::exclusive) | one value; one processor at a time runs a cohort, under a lock |
//!
//! [`StageOptions`] sets a stage's bounds and configures its batching:
//!
//! ```
//! use phalanx::Graph;
//!
//! let mut graph = Graph::new();
//! let lookup = graph.stage("lookup").max_cohort(64).shared(());
//! # let _ = lookup;
//! ```

#[doc(inline)]
pub use phalanx_core::{
    AffineOptions, AffineStage, BalancedStage, CallCycle, CallGraph, Cohort, CohortStage,
    DEFAULT_COHORT_TIME, DEFAULT_MAX_COHORT, DEFAULT_PARTITIONS_PER_PROCESSOR, Entry, Exclusive,
    ExclusiveStage, Gate, HandleSet, Handles, Items, KeyedItems, LocalAccess, MAX_INTERLEAVED,
    MAX_STAGES, MoveError, Offer, OperationName, Partition, PartitionedCohortStage,
    PartitionedStage, Policy, Pooled, Prefetch, Published, Rebuilding, Replica, Replicated,
    ReplicatedStage, Roaming, Shared, SharedStage, Stage, StageCall, StageNode, StageOptions,
    StageSlot, prefetch,
};
/// Implements [`Handles`](trait@Handles) for a struct. The handles are those of all fields without the attribute
/// `#[handles(skip)]`.
///
/// ```
/// use phalanx::stage::{Handles, SharedStage};
/// use phalanx::Graph;
///
/// #[derive(Clone, Copy, Handles)]
/// struct Files {
///     cache: SharedStage<()>,
///     disk: SharedStage<()>,
///     #[handles(skip)]
///     limit: usize,
/// }
///
/// let mut graph = Graph::new();
/// let control = graph.shared("control", ());
/// let files =
///     Files { cache: graph.shared("cache", ()), disk: graph.shared("disk", ()), limit: 7 };
/// graph.calls(control, files);
/// assert_eq!(graph.call_graph().calls.len(), 2);
/// # let _ = files.limit;
/// ```
#[cfg(feature = "macros")]
pub use phalanx_macros::Handles;
