//! Attributes of kernel threads, which carriers cannot take over: threads that have them stay at home.
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

/// Whether attributes of a new thread leave it to run on any processor.
pub(super) unsafe fn is_plain(attributes: *const u8) -> bool {
    // All bits are set if the program has chosen no processors.
    let mut set = [u64::MAX; 16];
    let result = unsafe {
        pthread_attr_getaffinity_np(attributes, size_of_val(&set), set.as_mut_ptr().cast())
    };
    result == 0 && set.iter().all(|bits| *bits == u64::MAX)
}

/// Whether attributes give a new thread a signal mask; otherwise it has that of its creator.
pub(super) unsafe fn have_mask(attributes: *const u8) -> bool {
    let mut set = [0_u64; 16];
    unsafe { pthread_attr_getsigmask_np(attributes, set.as_mut_ptr().cast()) == 0 }
}

/// Whether the calling kernel thread has neither a real-time nor a batch policy.
pub(super) fn is_scheduled_fairly() -> bool {
    sys::call(sys::SYS_SCHED_GETSCHEDULER, [0; 6]) == 0
}

/// Keeps the calling thread at home, whose kernel thread gets attributes.
pub(crate) fn separate(thread: &Thread) {
    thread.is_separate.store(true, Ordering::Relaxed);
    stay_home(thread);
}

/// Likewise a thread that may be another one. It comes home from a carrier within some milliseconds.
pub(crate) fn separate_other(thread: &Thread) {
    if core::ptr::eq(thread, current()) {
        return separate(thread);
    }
    thread.is_separate.store(true, Ordering::Relaxed);
    signals::keep_at_home(thread);
}

/// Likewise the thread with an identity, or the calling one for 0.
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
