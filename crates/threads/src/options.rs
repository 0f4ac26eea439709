//! Options of `phalanx threads` to compare schedules, passed in the environment.

use core::sync::atomic::{AtomicBool, Ordering};

/// Whether threads run in order of arrival only.
static FIFO: AtomicBool = AtomicBool::new(false);
/// Whether each part of a large transfer resumes the thread.
static NO_LARGE_IO: AtomicBool = AtomicBool::new(false);

pub(crate) fn set(fifo: bool, no_large_io: bool) {
    FIFO.store(fifo, Ordering::Relaxed);
    NO_LARGE_IO.store(no_large_io, Ordering::Relaxed);
}

/// Whether runnable threads run in order of arrival, not in cohorts.
#[inline]
pub(crate) fn is_fifo() -> bool {
    FIFO.load(Ordering::Relaxed)
}

/// Whether the kernel thread that polls continues transfers of blocked threads.
#[inline]
pub(crate) fn has_large_io() -> bool {
    !NO_LARGE_IO.load(Ordering::Relaxed)
}
