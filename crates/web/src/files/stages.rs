//! The stages of files, in wavefront order.

use phalanx::stage::{DEFAULT_PARTITIONS_PER_PROCESSOR, PartitionedCohortStage};
use phalanx::{Graph, PartitionedStage, SharedStage};

use crate::config::Config;
use crate::files::aggregator;
use crate::files::cache::FileCache;
use crate::files::cached::FileIndex;

/// Cache bytes per replica that a processor may keep. Most files of a site are larger, so replicas suffice for a full
/// cache.
const BYTES_PER_REPLICA: usize = 4096;
/// Cache bytes of a partition; smaller caches have fewer partitions. No value is larger than its partition, and a
/// compressed file may take half of one.
const MIN_PARTITION_BYTES: usize = 4 << 20;
/// Replicas on each processor, at about 50 bytes each.
const MIN_REPLICAS: usize = 256;
const MAX_REPLICAS: usize = 16 * 1024;

/// Handles to the stages that look files up and read them.
#[derive(Clone, Copy)]
pub(crate) struct FileStages {
    /// Replicas of the files in `cache`, for requests on other processors than the file's owner.
    pub(crate) index: FileIndex,
    pub(crate) cache: PartitionedStage<FileCache>,
    pub(crate) aggregator: PartitionedCohortStage<aggregator::Read, aggregator::Answer>,
    pub(crate) disk: SharedStage<()>,
}

impl FileStages {
    /// Declares the stages.
    pub(crate) fn declare(graph: &mut Graph, config: &Config) -> Self {
        let partitions = partitions(config.cache_bytes, config.runtime.workers);
        let budget = config.cache_bytes / partitions;
        let open_files = config.max_open_files();
        let (files, rest) = (open_files / partitions, open_files % partitions);
        let replicas = (config.cache_bytes / BYTES_PER_REPLICA).clamp(MIN_REPLICAS, MAX_REPLICAS);
        let index = graph.stage("file index").replicated(replicas);
        let cache = graph
            .stage("file cache")
            .partitions(partitions)
            .partitioned(move |n| FileCache::new(budget, files + usize::from(n < rest)));
        let aggregator = graph.reserve("aggregator");
        let disk = graph.shared("disk", ());
        let aggregator = graph
            .declare(aggregator)
            .partitioned_cohort(|_| (), move |(), cohort| aggregator::handle_cohort(disk, cohort));
        graph.calls(cache, (aggregator, disk));
        graph.calls(aggregator, disk);
        graph.calls(disk, ());
        Self { index, cache, aggregator, disk }
    }
}

/// The number of partitions of a cache with this many bytes: at least one for each worker, so that all workers load
/// files.
fn partitions(cache_bytes: usize, workers: usize) -> usize {
    (cache_bytes / MIN_PARTITION_BYTES).clamp(workers, workers * DEFAULT_PARTITIONS_PER_PROCESSOR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_of_small_caches_are_few() {
        for (megabytes, workers, wanted) in [
            (256, 1, 4),
            (256, 8, 32),
            (256, 32, 64),
            (256, 64, 64),
            (2, 64, 64),
            (0, 2, 2),
            (2, 1, 1),
        ] {
            assert_eq!(partitions(megabytes << 20, workers), wanted, "{megabytes} {workers}");
        }
    }
}
