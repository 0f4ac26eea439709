//! A stage that is being declared, and its options. Further methods of [`StageOptions`]:
//!
//! | file | methods |
//! |---|---|
//! | `policy/stage_options.rs` | options of optional mechanisms, and the hook at a cohort's end |
//! | `policy/rebuild_options.rs` | `rebuild_on_panic` |
//! | `policy/moving/roaming.rs` | `cache_affinity`, `balanced` |
//! | `declare.rs` | `shared`, `partitioned`, `exclusive` |
//! | `policy/moving/take_over.rs` | `migrating` |
//! | `policy/cohort/stage.rs`, `policy/cohort/serial.rs` | stages of cohort operations |
//! | `policy/custom.rs`, `policy/replicated.rs` | `policy`, `replicated` |

use std::time::Duration;

use crate::handle::graph::Graph;
use crate::stage::declaration::StageDeclaration;
use crate::stage::limits::limit_of;

/// The options of a stage that is being declared. The choice of the policy ends the declaration.
pub struct StageOptions<'g> {
    pub(super) graph: &'g mut Graph,
    /// A reserved position, or the next one.
    pub(super) stage: usize,
    pub(crate) declaration: StageDeclaration,
    pub(crate) partitions: Option<usize>,
    pub(crate) rebuild: bool,
}

impl StageOptions<'_> {
    /// The maximum number of operations in a cohort (MaxBatchSize in tr2001 §5.1). The default is the number that fits
    /// into the [cache](crate::Graph::cache_bytes), or the size that the runtime [finds](crate::Graph::tune_cohorts).
    /// 64 suits stages that use sockets: in larger cohorts, the kernel's socket state is evicted from the cache.
    ///
    /// # Panics
    /// If `count` is zero.
    #[must_use]
    pub fn max_cohort(mut self, count: usize) -> Self {
        assert!(count > 0, "max_cohort must be at least one operation");
        self.declaration.max_cohort = Some(count);
        self
    }

    /// The maximum duration of a cohort. A cohort that exceeds it ends after the current operation, and the remaining
    /// operations wait for the next sweep. The processor checks the time after eight operations, then at intervals that
    /// depend on the remaining time.
    #[must_use]
    pub fn cohort_time(mut self, time: Duration) -> Self {
        self.declaration.cohort_time = limit_of(time);
        self
    }

    /// Last in, first out: a processor runs the most recently queued operation first, because its data is most likely
    /// still in the cache (tr2001 §5.1.1). Operations then start in no defined order. To prevent starvation, a cohort
    /// runs the oldest operations first if the previous cohort left some behind or the oldest has waited for a
    /// millisecond.
    ///
    /// Without this option, operations that one processor invokes at the stage, for one processor to run,
    /// start in the order of their invocation (MaintainOrder in tr2001 §5.1). A [balanced](Self::balanced)
    /// stage ignores the option.
    ///
    /// ```
    /// let mut graph = phalanx_core::Graph::new();
    /// let network = graph.stage("network").lifo().shared(());
    /// # let _ = network;
    /// ```
    #[must_use]
    pub fn lifo(mut self) -> Self {
        self.declaration.lifo = true;
        self
    }

    /// The number of partitions of a partitioned stage, over all processors. The default is
    /// [`DEFAULT_PARTITIONS_PER_PROCESSOR`](crate::DEFAULT_PARTITIONS_PER_PROCESSOR) per processor.
    ///
    /// # Panics
    /// If `count` is zero.
    #[must_use]
    pub fn partitions(mut self, count: usize) -> Self {
        assert!(count > 0, "a stage needs at least one partition");
        self.partitions = Some(count);
        self
    }

    /// The maximum number of operations that may be queued at the stage on one processor. An invocation beyond it is
    /// rejected with [`CallError::Full`](crate::CallError::Full), which names the stage. By default only
    /// [`Graph::max_operations`](crate::Graph::max_operations) bounds the queue.
    ///
    /// Operations that wait for I/O, children or time are not queued and do not count. When they are woken, they are
    /// queued regardless of the bound. Operations from other processors wait in a separate queue, bounded by the same
    /// number or 1024, whichever is less.
    ///
    /// A producer that must not lose anything waits for capacity first:
    /// [`has_capacity`](crate::Stage::has_capacity), [`wait_for_capacity`](crate::Stage::wait_for_capacity).
    ///
    /// # Panics
    /// If `count` is zero.
    #[must_use]
    pub fn capacity(mut self, count: usize) -> Self {
        assert!(count > 0, "capacity must be at least one operation");
        self.declaration.capacity = count;
        self
    }
}
