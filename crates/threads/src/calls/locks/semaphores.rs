//! Semaphores of one process. glibc's value holds the state; threads that find it zero park.
//!
//! # Safety
//!
//! A semaphore has the layout of glibc for x86-64: not zero at byte 8 if processes share it.

use core::sync::atomic::{Ordering, fence};

use crate::calls::threads::signals::must_return;
use crate::schedule::home::{go_home, handle_requests};
use crate::system::deadline::deadline;
use crate::system::real::{self, Object};
use crate::system::sys::{self, Timespec};
use crate::thread::current;
use crate::thread::wait::Wait;
use crate::waiting::park::{Woken, park};
use crate::waiting::table;

/// Whether the kernel must wake the waiters, because they belong to several processes or have priorities.
fn is_native(semaphore: Object) -> bool {
    let is_shared = unsafe { semaphore.add(8).cast::<i32>().read_volatile() != 0 };
    is_shared || current().is_separate.load(Ordering::Relaxed)
}

fn wait(semaphore: Object, deadline: Option<u64>) -> i32 {
    let thread = current();
    handle_requests(thread);
    if !thread.is_convertible() {
        unsafe { real::pthread_testcancel() };
    }
    let key = semaphore as usize;
    loop {
        if unsafe { real::sem_trywait(semaphore) } == 0 {
            return 0;
        }
        let wait = Wait::begin(thread);
        table::insert(thread, key, 0, |_| true);
        fence(Ordering::SeqCst);
        let taken = unsafe { real::sem_trywait(semaphore) } == 0;
        let woken = if taken { Woken::Normally } else { park(thread, wait, deadline) };
        let is_own = thread.has_node(key);
        let notified = table::remove(thread, key);
        if taken {
            if notified {
                table::wake(key, 1);
            }
            return 0;
        }
        if notified && (is_own || woken == Woken::Normally) {
            continue;
        }
        if notified {
            // A handler that has waited has replaced the node, which may have been woken.
            table::wake(key, 1);
        }
        if woken != Woken::Normally {
            unsafe { real::pthread_testcancel() };
            if woken == Woken::Requested && !must_return(thread, deadline.is_none()) {
                continue;
            }
            return sys::fail(sys::EINTR) as i32;
        }
        if deadline.is_some_and(|at| sys::now() >= at) {
            return sys::fail(sys::ETIMEDOUT) as i32;
        }
    }
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn sem_wait(semaphore: Object) -> i32 {
    if is_native(semaphore) {
        go_home(current());
        return unsafe { real::sem_wait(semaphore) };
    }
    wait(semaphore, None)
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn sem_timedwait(semaphore: Object, time: *const Timespec) -> i32 {
    unsafe { sem_clockwait(semaphore, 0, time) }
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn sem_clockwait(semaphore: Object, clock: i32, time: *const Timespec) -> i32 {
    if is_native(semaphore) || !(0..=1).contains(&clock) {
        go_home(current());
        return unsafe { real::sem_clockwait(semaphore, clock, time) };
    }
    match deadline(clock, time) {
        Some(deadline) => wait(semaphore, Some(deadline)),
        None => sys::fail(sys::EINVAL) as i32,
    }
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn sem_post(semaphore: Object) -> i32 {
    // The semaphore may be freed by a thread that takes the new value.
    let result = unsafe { real::sem_post(semaphore) };
    if result == 0 {
        table::wake(semaphore as usize, 1);
    }
    result
}
