//! Thresholds and hold policies, which determine when a stage runs early and when it waits.

use std::time::Duration;

use crate::world::nanoseconds;

/// The limits at which a stage is overdue. The maximum value of a field means "never".
#[derive(Clone, Copy)]
pub(crate) struct Threshold {
    /// The number of queued operations.
    pub(crate) length: usize,
    /// The wait of the oldest operation, in nanoseconds.
    pub(crate) age: u64,
}

impl Threshold {
    pub(crate) const NONE: Self = Self { length: usize::MAX, age: u64::MAX };

    pub(crate) fn is_some(self) -> bool {
        self.length < usize::MAX || self.has_age()
    }

    pub(crate) fn has_age(self) -> bool {
        self.age < u64::MAX
    }
}

/// Converts a limit to the clock's nanoseconds. The result is below `u64::MAX`, which means no limit.
pub(crate) fn limit_of(duration: Duration) -> u64 {
    nanoseconds(duration).min(u64::MAX - 1)
}

/// Hold policy: the number of operations that a stage waits for, and the maximum time. A count of zero disables it.
#[derive(Clone, Copy)]
pub(crate) struct HoldPolicy {
    pub(crate) count: usize,
    pub(crate) time: u64,
}

impl HoldPolicy {
    pub(crate) const NONE: Self = Self { count: 0, time: 0 };

    pub(crate) fn is_some(self) -> bool {
        self.count > 1
    }
}
