//! Prefetching after a long sleep.

use super::Runtime;

impl Runtime {
    /// Sets whether a processor prefetches its memory and code after a sleep of at least 10 ms that no timer has ended.
    /// False by default.
    ///
    /// The memory is the processor's stack and state. The code is what a linker script has placed between the two
    /// functions of `phalanx::worker::hot_code`, as `crates/cli/hot.ld` does for `phalanx`; without such a script it is
    /// empty. The prefetch takes a few microseconds for 200 KB, and saves more if most of them serve the next request.
    #[must_use]
    pub fn prefetch_after_sleep(mut self, prefetches: bool) -> Self {
        self.worker.prefetches = prefetches;
        self
    }
}
