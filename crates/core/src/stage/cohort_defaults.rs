//! The size of cohorts of stages that declare none: as many operations as the second-level cache has
//! room for.

/// Assumed of a second-level cache that nobody has told of.
const DEFAULT_CACHE_BYTES: usize = 1 << 20;
/// The bound from bytes is within these.
const COHORT_BOUNDS: (usize, usize) = (16, 256);
/// What a graph says about the cohorts of stages that declare no size.
#[derive(Clone, Copy)]
pub(crate) struct CohortDefaults {
    /// Bytes of a processor's second-level cache, if somebody has told.
    pub(crate) cache: Option<usize>,
    /// Whether other sizes are tried.
    pub(crate) found: bool,
}

impl CohortDefaults {
    pub(crate) fn cache(self) -> usize {
        self.cache.unwrap_or(DEFAULT_CACHE_BYTES)
    }

    pub(crate) const DEFAULT: Self = Self { cache: None, found: true };
}

/// How many operations of so many bytes the cache has room for, within bounds.
pub(crate) fn bound(cache: usize, bytes: usize) -> usize {
    (cache / bytes).clamp(COHORT_BOUNDS.0, COHORT_BOUNDS.1)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::memory::slab::stride;

    #[test]
    fn the_bound_is_what_the_cache_has_room_for() {
        assert_eq!(bound(1 << 20, stride(0)), 256);
        assert_eq!(bound(1 << 20, stride(10)), 63);
        assert_eq!(bound(64 << 10, stride(10)), 16);
    }
}
