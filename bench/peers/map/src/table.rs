//! The map: in shards under mutexes, or one processor's part of it.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};

/// A mutex each.
const SHARDS: usize = 32;

/// One part of the map.
pub(crate) type Part = HashMap<Vec<u8>, Vec<u8>>;

/// A client's request.
pub(crate) enum Request {
    Get(Vec<u8>),
    Set(Vec<u8>, Vec<u8>),
}

/// The value that was found, or that one was set.
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

/// The number that decides which part has a key.
pub(crate) fn number(hasher: &RandomState, request: &Request) -> u64 {
    hasher.hash_one(request.key())
}
