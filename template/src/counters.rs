//! The stage with the counters.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use phalanx::{CallError, Graph, PartitionedStage};

/// Maximum number of counters of one partition.
const MAX_COUNTERS: usize = 10_000;

/// Maximum length of a name in bytes, so that the memory of all counters has a bound.
const MAX_NAME: usize = 200;

/// Handle of a partitioned stage: the name of a counter selects the partition, and one processor owns each partition, so
/// the maps need no lock.
#[derive(Clone)]
pub struct Counters {
    stage: PartitionedStage<HashMap<String, u64>>,
    /// Hashes with a random key, so that clients cannot choose names of one partition.
    hasher: Arc<RandomState>,
}

impl Counters {
    /// Declares the stage as the next of `graph`.
    pub fn declare(graph: &mut Graph) -> Self {
        let stage = graph.partitioned("counters", |_| HashMap::new());
        Self { stage, hasher: Arc::new(RandomState::new()) }
    }

    /// The count of a counter.
    pub async fn read(&self, name: &str) -> Result<u64, Failure> {
        let (key, name) = (self.hasher.hash_one(name), name.to_owned());
        let call = self.stage.call(key, async move |counters| counters.with(|map| map.get(&name).copied()));
        call.await.map_err(Failure::Call)?.ok_or(Failure::Unknown)
    }

    /// Adds one, and returns the new count.
    pub async fn add(&self, name: &str) -> Result<u64, Failure> {
        if name.len() > MAX_NAME {
            return Err(Failure::TooLong);
        }
        let (key, name) = (self.hasher.hash_one(name), name.to_owned());
        let call = self.stage.call(key, async move |counters| counters.with(|map| increment(map, name)));
        call.await.map_err(Failure::Call)?
    }
}

fn increment(counters: &mut HashMap<String, u64>, name: String) -> Result<u64, Failure> {
    if counters.len() >= MAX_COUNTERS && !counters.contains_key(&name) {
        return Err(Failure::TooMany);
    }
    let count = counters.entry(name).or_default();
    *count += 1;
    Ok(*count)
}

/// Why a request failed.
#[derive(Debug)]
pub enum Failure {
    /// No counter has this name.
    Unknown,
    /// The name is too long.
    TooLong,
    /// There is no room for another counter.
    TooMany,
    /// The stage did not execute the operation.
    Call(CallError),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("no counter has this name"),
            Self::TooLong => write!(f, "a name has at most {MAX_NAME} bytes"),
            Self::TooMany => f.write_str("there are too many counters; raise MAX_COUNTERS"),
            Self::Call(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Failure {}
