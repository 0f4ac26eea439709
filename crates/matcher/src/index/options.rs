//! Options of an index.

use crate::simd::Tier;

/// Options of an [`Index`](crate::Index).
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Seed of the hashes of names and constants. An unpredictable seed prevents subscribers from choosing
    /// constants that collide.
    pub seed: u64,
    /// Whether to file subscriptions under several attributes where that saves work. If false, each is filed under one
    /// attribute, which is useful for comparison.
    pub multiple: bool,
    /// Expected number of subscriptions, if known; the choice of access predicates depends on it.
    pub expected: usize,
    /// Instruction set of the checks; `None` selects the best one of this CPU.
    pub tier: Option<Tier>,
}

impl Default for Options {
    fn default() -> Options {
        Options { seed: 0, multiple: true, expected: 0, tier: None }
    }
}
