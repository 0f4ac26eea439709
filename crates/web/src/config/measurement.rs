//! Settings that only measurements change.

/// Settings that only measurements change; the configuration file has no keys for them. By default all are false.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeasurementSettings {
    /// Whether a cohort has all connections that are ready.
    pub unbounded_cohorts: bool,
    /// Whether connections run within a [memory budget](phalanx::overload::Ingress::BudgetEveryStage). It replaces
    /// [`Config::max_queue_delay`](crate::Config::max_queue_delay).
    pub memory_budget: bool,
    /// Whether the general allocator provides each I/O buffer, instead of a pool.
    pub unpooled_buffers: bool,
}
