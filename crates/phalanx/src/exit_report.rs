//! What is left of a program when it has ended: nothing, and that can be asked for.

use std::time::Duration;

/// The end of a program, as [`Runtime::run`](crate::Runtime::run) reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExitReport {
    /// By processor.
    pub processors: Vec<Leaks>,
}

/// What a processor had not got back when it ended. All zero, but for a fault, or for a device that
/// does not answer: a request to the kernel that was cancelled is waited for two seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leaks {
    /// Operations in its slab.
    pub operations: usize,
    /// Timers armed.
    pub timers: usize,
    /// Requests to its driver that were not answered.
    pub requests: usize,
    /// Operations that wait to be told of the drain.
    pub draining: usize,
    /// Receive buffers that did not come back.
    pub buffers: usize,
}

impl ExitReport {
    /// Whether nothing is left anywhere.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.processors.iter().all(|left| *left == Leaks::default())
    }
}

/// How long the kernel may keep what belongs to requests that were cancelled.
pub(crate) const SETTLING: Duration = Duration::from_secs(2);
