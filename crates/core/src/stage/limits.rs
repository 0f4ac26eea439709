//! Thresholds and hold policies: when a stage runs early, and when it waits.

use std::time::Duration;

use crate::world::nanoseconds;

/// The threshold beyond which a stage is overdue; the maximum value stands for "never".
#[derive(Clone, Copy)]
pub(crate) struct Threshold {
    /// Operations queued.
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

/// A limit in the clock's nanoseconds, of which `u64::MAX` means none.
pub(crate) fn limit_of(duration: Duration) -> u64 {
    nanoseconds(duration).min(u64::MAX - 1)
}

/// Hold policy: the number of operations that a stage waits for, and for how long. A count of zero
/// disables it.
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
