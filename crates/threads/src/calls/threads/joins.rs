//! Joins. A thread that joins another one waits in the parking table until that one is about to end; then it calls the
//! C library.
//!
//! # Safety
//!
//! The caller passes a `pthread_t` that it may join or detach, so the record of the thread lives.

use core::sync::atomic::Ordering;

use crate::calls::threads::{creation, sleeps};
use crate::schedule::home::{go_home, handle_requests};
use crate::system::deadline::deadline;
use crate::system::real;
use crate::system::sys::{self, Timespec};
use crate::thread::wait::Wait;
use crate::thread::{Thread, current, of};
use crate::waiting::park::{Woken, park};
use crate::waiting::{ends, table};

/// Whether a thread will announce its end. Otherwise it was not created through this library, and the caller joins it
/// at home; or the deadline has passed before it has started.
fn announces_end(thread: &Thread, target: &Thread, deadline: Option<u64>) -> bool {
    let has_announced_end = || target.announces_end.load(Ordering::SeqCst);
    while !has_announced_end() {
        if !creation::is_pending() {
            break;
        }
        if deadline.is_some_and(|at| sys::now() >= at) {
            return false;
        }
        // The target may be one of the threads that have not started.
        unsafe { sleeps::sched_yield() };
    }
    let has_announced_end = has_announced_end();
    if !has_announced_end {
        go_home(thread);
    }
    has_announced_end
}

/// Waits until a thread ends, at most until `deadline`. Returns at once where the C library reports an error.
fn wait(thread: &Thread, target: &Thread, deadline: Option<u64>) {
    let is_joinable = !target.is_detached.load(Ordering::SeqCst) && !core::ptr::eq(thread, target);
    if !thread.is_convertible() || !announces_end(thread, target, deadline) {
        return;
    }
    let (key, mut is_over) = (ends::key(target), !is_joinable);
    while !is_over {
        let wait = Wait::begin(thread);
        table::insert(thread, key, 0, |_| true);
        is_over =
            target.has_ended.load(Ordering::SeqCst) || deadline.is_some_and(|at| sys::now() >= at);
        let woken = if is_over { Woken::Normally } else { park(thread, wait, deadline) };
        table::remove(thread, key);
        // A thread that is cancelled, or has received a signal, is at home and waits there.
        is_over |= woken != Woken::Normally;
    }
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
pub(crate) unsafe extern "C" fn pthread_join(pthread: usize, value: *mut *mut u8) -> i32 {
    unsafe { join(pthread, None, || real::pthread_join(pthread, value)) }
}

unsafe fn join(pthread: usize, deadline: Option<u64>, native: impl FnOnce() -> i32) -> i32 {
    let (thread, target) = (current(), of(pthread));
    handle_requests(thread);
    thread.joins.store(target.as_ptr(), Ordering::SeqCst);
    // Two threads that join each other would wait forever, unless the other one is cancelled.
    let waits_for_ever = target.joins.load(Ordering::SeqCst) == thread.as_ptr()
        && !target.is_cancelled.load(Ordering::SeqCst);
    let result = match waits_for_ever {
        true => sys::EDEADLK,
        false => {
            wait(thread, target, deadline);
            native()
        }
    };
    thread.joins.store(core::ptr::null_mut(), Ordering::SeqCst);
    result
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn pthread_timedjoin_np(
    pthread: usize,
    value: *mut *mut u8,
    time: *const Timespec,
) -> i32 {
    unsafe { pthread_clockjoin_np(pthread, value, 0, time) }
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn pthread_clockjoin_np(
    pthread: usize,
    value: *mut *mut u8,
    clock: i32,
    time: *const Timespec,
) -> i32 {
    // Malformed times are left to the C library, which waits at home.
    let deadline = match time.is_null() {
        true => None,
        false if (0..=1).contains(&clock) => Some(deadline(clock, time).unwrap_or(0)),
        false => Some(0),
    };
    unsafe { join(pthread, deadline, || real::pthread_clockjoin_np(pthread, value, clock, time)) }
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
pub(crate) unsafe extern "C" fn pthread_detach(pthread: usize) -> i32 {
    let result = unsafe { real::pthread_detach(pthread) };
    if result == 0 {
        of(pthread).is_detached.store(true, Ordering::SeqCst);
    }
    result
}
