//! Deadlines of the C library as monotonic times.
//!
//! # Safety
//!
//! The caller passes a time that may be read.

use crate::system::sys::{self, Timespec};

/// A deadline of a clock as monotonic nanoseconds; none if the time is malformed.
pub(crate) fn deadline(clock: i32, time: *const Timespec) -> Option<u64> {
    let time = unsafe { *time };
    if !(0..1_000_000_000).contains(&time.nanoseconds) {
        return None;
    }
    let time = (time.seconds.max(0) as u64)
        .saturating_mul(1_000_000_000)
        .saturating_add(time.nanoseconds as u64);
    // 1 is the monotonic clock.
    Some(if clock == 1 {
        time
    } else {
        sys::now().saturating_add(time.saturating_sub(sys::clock(clock)))
    })
}
