//! A step: what a command does in one partition.

use std::time::Duration;

use crate::command::PartitionAction;
use crate::key::Key;
use crate::reply::Reply;
use crate::store::{Action, Store};

/// An action in one partition.
#[derive(Debug)]
pub(crate) enum Step {
    /// On one key.
    Key(Key, Action),
    /// On all of its keys.
    PartitionAction(PartitionAction),
    /// A part of an iteration over all keys.
    Scan(Scan),
}

/// A part of an iteration over all keys. A cursor consists of the partition (its low 16 bits) and the position in it;
/// zero is both the beginning and the end.
#[derive(Debug)]
pub(crate) struct Scan {
    pub(crate) partition: usize,
    /// The number of partitions.
    partitions: usize,
    /// The position, which decreases.
    before: usize,
    count: usize,
    pattern: Vec<u8>,
}

/// Low bits of a cursor, which are the partition.
const BITS: u32 = 16;
/// The position at the beginning of a partition.
const ALL: usize = usize::MAX >> BITS;

impl Step {
    pub(crate) fn run(self, store: &mut Store, now: Duration) -> Reply {
        match self {
            Self::Key(key, action) => store.apply(key, action, now),
            Self::PartitionAction(PartitionAction::Count) => Reply::Integer(store.count() as i64),
            Self::PartitionAction(PartitionAction::Clear) => {
                store.clear();
                Reply::OK
            }
            Self::PartitionAction(PartitionAction::Keys(pattern)) => {
                Reply::Array(store.scan(usize::MAX, usize::MAX, &pattern, now).1)
            }
            Self::Scan(scan) => scan.run(store, now),
        }
    }
}

impl Scan {
    /// `None` if there is no such partition.
    pub(crate) fn at(
        cursor: u64,
        partitions: usize,
        count: usize,
        pattern: Vec<u8>,
    ) -> Option<Self> {
        let partition = cursor as usize & 0xffff;
        let before = if cursor == 0 { ALL } else { (cursor >> BITS) as usize };
        let scan = Self { partition, partitions, before, count, pattern };
        (partition < partitions).then_some(scan)
    }

    fn run(self, store: &Store, now: Duration) -> Reply {
        let (next, found) = store.scan(self.before, self.count, &self.pattern, now);
        let (partition, next) = match next {
            0 => (self.partition + 1, ALL),
            next => (self.partition, next),
        };
        if partition == self.partitions {
            return end_of_scan(found);
        }
        let cursor = (next as u64) << BITS | partition as u64;
        Reply::Array(vec![Reply::bulk(cursor.to_string()), Reply::Array(found)])
    }
}

pub(crate) fn end_of_scan(found: Vec<Reply>) -> Reply {
    Reply::Array(vec![Reply::bulk("0"), Reply::Array(found)])
}
