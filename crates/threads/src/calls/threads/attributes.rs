//! Attributes of kernel threads, which carriers cannot take over: threads that have them stay at home.
//!
//! # Safety
//!
//! The caller passes attributes that the C library has initialized.

use crate::system::sys;

unsafe extern "C" {
    fn pthread_attr_getaffinity_np(attributes: *const u8, bytes: usize, set: *mut u8) -> i32;
}

/// Whether attributes of a new thread leave it to run on any processor.
pub(super) unsafe fn is_plain(attributes: *const u8) -> bool {
    // All bits are set if the program has chosen no processors.
    let mut set = [u64::MAX; 16];
    let result = unsafe {
        pthread_attr_getaffinity_np(attributes, size_of_val(&set), set.as_mut_ptr().cast())
    };
    result == 0 && set.iter().all(|bits| *bits == u64::MAX)
}

/// Whether the calling kernel thread has neither a real-time nor a batch policy.
pub(super) fn is_scheduled_fairly() -> bool {
    sys::call(sys::SYS_SCHED_GETSCHEDULER, [0; 6]) == 0
}
