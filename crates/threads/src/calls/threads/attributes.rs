//! Attributes of kernel threads that carriers cannot adopt. Threads that have them stay at home.
//!
//! # Safety
//!
//! The caller passes attributes that the C library has initialized.

use core::sync::atomic::Ordering;

use crate::calls::threads::signals;
use crate::schedule::all;
use crate::schedule::home::stay_home;
use crate::system::sys;
use crate::thread::{Thread, current};

unsafe extern "C" {
    fn pthread_attr_getaffinity_np(attributes: *const u8, bytes: usize, set: *mut u8) -> i32;
    fn pthread_attr_getsigmask_np(attributes: *const u8, set: *mut u8) -> i32;
}

/// Whether the attributes of a new thread permit it to run on any processor.
pub(super) unsafe fn is_plain(attributes: *const u8) -> bool {
    // All bits stay set if the program has not set an affinity.
    let mut set = [u64::MAX; 16];
    let result = unsafe {
        pthread_attr_getaffinity_np(attributes, size_of_val(&set), set.as_mut_ptr().cast())
    };
    result == 0 && set.iter().all(|bits| *bits == u64::MAX)
}

/// Whether the attributes of a new thread contain a signal mask; otherwise it inherits its creator's.
pub(super) unsafe fn have_mask(attributes: *const u8) -> bool {
    let mut set = [0_u64; 16];
    unsafe { pthread_attr_getsigmask_np(attributes, set.as_mut_ptr().cast()) == 0 }
}

/// Whether the calling kernel thread has neither a real-time nor a batch policy.
pub(super) fn is_scheduled_fairly() -> bool {
    sys::call(sys::SYS_SCHED_GETSCHEDULER, [0; 6]) == 0
}

/// Keeps the calling thread at home, because its kernel thread gets attributes.
pub(crate) fn separate(thread: &Thread) {
    thread.is_separate.store(true, Ordering::Relaxed);
    stay_home(thread);
}

/// As [`separate`], for any thread. If it is on a carrier, it returns home within some milliseconds.
pub(crate) fn separate_other(thread: &Thread) {
    if core::ptr::eq(thread, current()) {
        return separate(thread);
    }
    thread.is_separate.store(true, Ordering::Relaxed);
    signals::keep_at_home(thread);
}

/// As [`separate`], for the thread with this identity, or for the calling thread if it is 0.
pub(crate) fn separate_tid(tid: u32) {
    let thread = current();
    if tid == 0 || tid == thread.home_tid() {
        return separate(thread);
    }
    all::for_each(|thread| {
        if thread.tid.get() == tid {
            separate_other(thread);
        }
    });
}

/// Likewise before `setpriority`.
pub(crate) fn separate_prioritized(kind: u32, who: u32) {
    const PRIO_PROCESS: u32 = 0;
    match kind {
        PRIO_PROCESS => separate_tid(who),
        _ => separate(current()),
    }
}
