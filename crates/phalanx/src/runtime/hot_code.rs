//! The prefetching of a program's code.

use super::Runtime;

impl Runtime {
    /// Sets whether a processor that has slept for over 10 ms prefetches the code that the linker has put together. False by
    /// default. It has no effect unless a linker script places functions between the two functions of
    /// `phalanx::worker::hot_code`, as `crates/cli/hot.ld` does. The prefetch takes a few microseconds for 200 KB and
    /// saves more if most of them serve the next request. Stack and state of the processor are always prefetched.
    #[must_use]
    pub fn prefetch_code(mut self, prefetches: bool) -> Self {
        self.worker.prefetches_code = prefetches;
        self
    }
}
