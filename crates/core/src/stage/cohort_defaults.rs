//! The cohort size of stages that declare none: the number of operations that fit the second-level
//! cache.

use crate::control::election::Election;

/// The assumed size of the second-level cache, in bytes, if the graph does not set it.
const DEFAULT_CACHE_BYTES: usize = 1 << 20;
/// The minimum and maximum of the cohort size derived from bytes.
const COHORT_BOUNDS: (usize, usize) = (16, 256);
/// The graph's settings for cohorts of stages that declare no size.
#[derive(Clone, Copy)]
pub(crate) struct CohortDefaults {
    /// The bytes of a processor's second-level cache, if set.
    pub(crate) cache: Option<usize>,
    /// Whether the cohort tuner tries other sizes.
    pub(crate) found: bool,
    /// Which stages of a graph with entries need room in the cache.
    pub(crate) election: Election,
}

impl CohortDefaults {
    pub(crate) fn cache(self) -> usize {
        self.cache.unwrap_or(DEFAULT_CACHE_BYTES)
    }

    pub(crate) const DEFAULT: Self = Self { cache: None, found: true, election: Election::Entries };
}

/// The number of operations of this size that fit the cache, within the bounds.
pub(crate) fn bound(cache: usize, bytes: usize) -> usize {
    (cache / bytes).clamp(COHORT_BOUNDS.0, COHORT_BOUNDS.1)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::operation::size_class::stride;

    #[test]
    fn the_bound_is_what_the_cache_has_room_for() {
        assert_eq!(bound(1 << 20, stride(0)), 256);
        assert_eq!(bound(1 << 20, stride(10)), 63);
        assert_eq!(bound(64 << 10, stride(10)), 16);
    }
}
