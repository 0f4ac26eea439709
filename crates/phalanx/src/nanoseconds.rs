//! Durations as numbers of the program's clock.

use std::time::Duration;

/// A duration in nanoseconds; `u64::MAX` beyond their range.
pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    duration.as_nanos().try_into().unwrap_or(u64::MAX)
}
