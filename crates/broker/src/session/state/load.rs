//! The number of messages held for the clients of one partition.

use phalanx::metrics::Gauge;

use crate::counters::Counters;
use crate::model::session::SessionLoad;

/// The sums over all sessions of a partition, and their gauges. Each partition has gauges of its own, so processors do
/// not contend for them.
pub(in crate::session) struct PartitionLoad {
    total: SessionLoad,
    queued: Gauge,
    queued_bytes: Gauge,
    inflight: Gauge,
}

impl PartitionLoad {
    pub(in crate::session) fn new(counters: &Counters, partition: usize) -> Self {
        let partition = partition.to_string();
        let gauge = |family: &phalanx::metrics::Family<Gauge>| family.member(&partition);
        Self {
            total: SessionLoad::default(),
            queued: gauge(&counters.queued),
            queued_bytes: gauge(&counters.queued_bytes),
            inflight: gauge(&counters.inflight),
        }
    }

    /// Records that the load of a session changed.
    pub(in crate::session) fn change(&mut self, before: SessionLoad, after: SessionLoad) {
        let apply = |total: &mut usize, before: usize, after: usize| {
            *total = (*total + after).saturating_sub(before);
        };
        apply(&mut self.total.queued, before.queued, after.queued);
        apply(&mut self.total.queued_bytes, before.queued_bytes, after.queued_bytes);
        apply(&mut self.total.inflight, before.inflight, after.inflight);
    }

    /// Updates the gauges. Called at the end of an operation.
    pub(in crate::session) fn publish(&self) {
        let SessionLoad { queued, queued_bytes, inflight } = self.total;
        self.queued.set(queued as i64);
        self.queued_bytes.set(queued_bytes as i64);
        self.inflight.set(inflight as i64);
    }
}
