//! The map: sharded under mutexes, or one processor's partition of it.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};

/// Number of shards, each under a mutex.
const SHARDS: usize = 32;

/// A shard or partition of the map.
pub(crate) type Part = HashMap<Vec<u8>, Vec<u8>>;

/// A client's request.
pub(crate) enum Request {
    Get(Vec<u8>),
    Set(Vec<u8>, Vec<u8>),
}

/// The value, or the confirmation of a SET.
pub(crate) enum Answer {
    Found(Option<Vec<u8>>),
    Set,
}

impl Request {
    pub(crate) fn key(&self) -> &[u8] {
        match self {
            Self::Get(key) | Self::Set(key, _) => key,
        }
    }

    pub(crate) fn run(self, part: &mut Part) -> Answer {
        match self {
            Self::Get(key) => Answer::Found(part.get(&key).cloned()),
            Self::Set(key, value) => {
                part.insert(key, value);
                Answer::Set
            }
        }
    }
}

/// The whole map, shared by all threads.
#[derive(Default)]
pub(crate) struct Sharded {
    hasher: RandomState,
    shards: [Mutex<Part>; SHARDS],
}

impl Sharded {
    pub(crate) fn run(&self, request: Request) -> Answer {
        let shard = self.hasher.hash_one(request.key()) as usize % self.shards.len();
        let mut part = self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner);
        request.run(&mut part)
    }
}

/// A hash that determines the shard or partition of the key.
pub(crate) fn number(hasher: &RandomState, request: &Request) -> u64 {
    hasher.hash_one(request.key())
}
