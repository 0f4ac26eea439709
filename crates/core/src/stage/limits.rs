//! When a stage runs before its turn, and when after it.

use std::time::Duration;

/// When a stage is overdue. The greatest value stands for "never".
#[derive(Clone, Copy)]
pub(crate) struct Threshold {
    /// Operations queued.
    pub(crate) length: usize,
    /// Nanoseconds that the oldest has waited.
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

/// A duration in the clock's nanoseconds.
pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    duration.as_nanos().try_into().unwrap_or(u64::MAX - 1)
}

/// What a stage waits for. A count of zero waits for nothing.
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

    /// Not for more than a cohort can be.
    pub(crate) fn within(self, max_cohort: usize) -> Self {
        Self { count: self.count.min(max_cohort), ..self }
    }
}
