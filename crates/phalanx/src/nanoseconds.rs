//! Durations in nanoseconds, as used by the program's clock.

use std::time::Duration;

/// A duration in nanoseconds; `u64::MAX` if it is out of range.
pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    duration.as_nanos().try_into().unwrap_or(u64::MAX)
}
