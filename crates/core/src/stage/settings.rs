//! A graph's settings, and the default cohort size, which is the number of operations that fit into the second-level
//! cache.

use crate::control::ingress::Ingress;

/// The assumed size of the second-level cache, in bytes, if the graph does not set it.
const DEFAULT_CACHE_BYTES: usize = 1 << 20;
/// The minimum and maximum of the default cohort size.
const COHORT_BOUNDS: (usize, usize) = (16, 256);

/// The settings of a graph, which are the same on all processors.
#[derive(Clone, Copy)]
pub(crate) struct Settings {
    /// The maximum number of operations on a processor.
    pub(crate) max_operations: usize,
    pub(crate) ingress: Ingress,
    /// The bytes of a processor's second-level cache, if set.
    pub(crate) cache: Option<usize>,
    /// Whether the cohort tuner tries sizes for stages that declare none.
    pub(crate) tunes_cohorts: bool,
}

impl Default for Settings {
    fn default() -> Self {
        let ingress = Ingress::default();
        Self { max_operations: 1 << 20, ingress, cache: None, tunes_cohorts: true }
    }
}

impl Settings {
    pub(crate) fn cache(self) -> usize {
        self.cache.unwrap_or(DEFAULT_CACHE_BYTES)
    }

    /// The number of requests of this size that fit into the cache, within the bounds.
    pub(crate) fn cohort_size(self, request_bytes: usize) -> usize {
        (self.cache() / request_bytes).clamp(COHORT_BOUNDS.0, COHORT_BOUNDS.1)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::operation::size_class::stride;

    #[test]
    fn the_bound_is_what_the_cache_has_room_for() {
        let size = |cache, class| {
            Settings { cache: Some(cache), ..Settings::default() }.cohort_size(stride(class))
        };
        assert_eq!(size(1 << 20, 0), 256);
        assert_eq!(size(1 << 20, 10), 63);
        assert_eq!(size(64 << 10, 10), 16);
    }
}
