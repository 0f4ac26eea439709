//! The stages of files, in wavefront order.

use phalanx::stage::PartitionedCohortStage;
use phalanx::{Graph, PartitionedStage, SharedStage};

use crate::config::Config;
use crate::files::aggregator;
use crate::files::cache::FileCache;
use crate::files::cached::FileIndex;

/// Cache bytes for each replica of a file that a processor may have: most files of a site are larger.
const BYTES_PER_REPLICA: usize = 4096;
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
        let partitions = config.runtime.workers * phalanx::stage::DEFAULT_PARTITIONS_PER_PROCESSOR;
        let budget = config.cache_bytes / partitions;
        let open = config.open_files.div_ceil(partitions);
        let replicas = (config.cache_bytes / BYTES_PER_REPLICA).clamp(MIN_REPLICAS, MAX_REPLICAS);
        let index = graph.stage("file index").replicated(replicas);
        let cache = graph
            .stage("file cache")
            .partitions(partitions)
            .partitioned(move |_| FileCache::new(budget, open));
        let aggregator = graph.reserve("aggregator");
        let disk = graph.shared("disk", ());
        let aggregator = graph
            .declare(aggregator)
            .partitioned_cohort(|_| (), move |(), cohort| aggregator::gather(disk, cohort));
        graph.calls(cache, (aggregator, disk));
        graph.calls(aggregator, disk);
        graph.calls(disk, ());
        Self { index, cache, aggregator, disk }
    }
}
