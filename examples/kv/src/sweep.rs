//! Giving back the memory of what has expired and nobody asks for.

use std::time::Duration;

use phalanx::shutdown::draining;
use phalanx::task::Either;
use phalanx::{select, sleep};

use crate::stages::Stages;

/// How often a step is made in every partition.
const INTERVAL: Duration = Duration::from_millis(100);
/// Entries that a step looks at: so few that no request waits long behind it.
const ENTRIES_PER_STEP: usize = 1000;

/// Walks over all partitions in small steps until the program drains.
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
