//! Frees the memory of expired keys that no command accesses.

use std::time::Duration;

use phalanx::shutdown::draining;
use phalanx::task::Either;
use phalanx::{select, sleep};

use crate::stages::Stages;

/// Interval between two steps in every partition.
const INTERVAL: Duration = Duration::from_millis(100);
/// Entries per step, few enough not to delay requests.
const ENTRIES_PER_STEP: usize = 1000;

/// Sweeps all partitions in small steps until the program shuts down.
pub(crate) async fn sweep(stages: Stages) {
    let mut positions = vec![usize::MAX; stages.store.partitions_count()];
    while let Either::Left(()) = select(sleep(INTERVAL), draining()).await {
        for (partition, position) in positions.iter_mut().enumerate() {
            let before = if *position == 0 { usize::MAX } else { *position };
            let step = stages.store.call_partition(partition, move |partition| async move {
                partition.with(|store| store.sweep(before, ENTRIES_PER_STEP, phalanx::time::now()))
            });
            *position = step.await.unwrap_or(0);
        }
    }
}
