//! How an index is made.

use crate::Tier;

/// How an [`Index`](crate::Index) is made.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Mixed into the hashes of names and constants. A number that nobody can guess keeps those who write
    /// filters from choosing constants that collide.
    pub seed: u64,
    /// File subscriptions under several attributes at once where that saves work. Without it each is filed
    /// under one attribute: that is for comparison.
    pub multiple: bool,
    /// How many subscriptions are to come, if that is known: the choice of access predicates depends on it.
    pub expected: usize,
    /// Instructions for the checks; none: the best that this processor has.
    pub tier: Option<Tier>,
}

impl Default for Options {
    fn default() -> Options {
        Options { seed: 0, multiple: true, expected: 0, tier: None }
    }
}
