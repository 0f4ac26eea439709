//! Condition variables. Waiters are only in the parking table; the memory of the variable has no state.
//!
//! # Safety
//!
//! A condition variable has the layout of glibc for x86-64: its flags at byte 36.

use core::sync::atomic::Ordering;

use crate::calls::locks::mutexes;
use crate::schedule::home::{go_home, handle_requests};
use crate::system::deadline::deadline;
use crate::system::real::{self, Object};
use crate::system::sys::{self, Timespec};
use crate::thread::current;
use crate::thread::wait::Wait;
use crate::waiting::park::{Woken, park};
use crate::waiting::table;

/// Flags of a condition variable: shared by processes, and its clock.
const SHARED: u32 = 1;
const MONOTONIC: u32 = 2;

fn flags(condition: Object) -> u32 {
    unsafe { condition.add(36).cast::<u32>().read_volatile() }
}

/// Whether threads of other processes may wait. In that case glibc performs the wait; it does not see waiters of a
/// mutex in the table.
fn is_shared(condition: Object, mutex: Object) -> bool {
    flags(condition) & SHARED != 0 && mutexes::is_shared(mutex)
}

fn wait(condition: Object, mutex: Object, deadline: Option<u64>) -> i32 {
    let thread = current();
    handle_requests(thread);
    // Releasing the mutex would not be atomic with a cancellation.
    if !thread.is_convertible() {
        unsafe { real::pthread_testcancel() };
    }
    let key = condition as usize;
    table::insert(thread, key, 0, |_| true);
    let error = unsafe { real::pthread_mutex_unlock(mutex) };
    if error != 0 {
        if table::remove(thread, key) {
            // Pass on a signal that this waiter has taken, because it is meant for another waiter.
            table::wake(key, 1);
        }
        return error;
    }
    table::wake(mutex as usize, 1);
    let (mut cancelled, mut wait) = (false, Wait::begin(thread));
    while !thread.is_woken(key) && !cancelled && deadline.is_none_or(|at| sys::now() < at) {
        // As in the C library, the wait continues after a handler.
        let interrupted = park(thread, wait, deadline) != Woken::Normally;
        cancelled = interrupted && thread.is_cancelled.load(Ordering::SeqCst);
        wait = Wait::begin(thread);
    }
    let woken = table::remove(thread, key);
    let error = mutexes::lock(thread, mutex);
    if !thread.is_convertible() && !woken {
        unsafe { real::pthread_testcancel() };
    }
    // A cancellation that the thread does not accept ends the wait spuriously.
    if error != 0 || woken || cancelled { error } else { sys::ETIMEDOUT }
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
pub(crate) unsafe extern "C" fn pthread_cond_wait(condition: Object, mutex: Object) -> i32 {
    if is_shared(condition, mutex) {
        go_home(current());
        return unsafe { real::pthread_cond_wait(condition, mutex) };
    }
    wait(condition, mutex, None)
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
pub(crate) unsafe extern "C" fn pthread_cond_timedwait(
    condition: Object,
    mutex: Object,
    time: *const Timespec,
) -> i32 {
    let clock = i32::from(flags(condition) & MONOTONIC != 0);
    unsafe { pthread_cond_clockwait(condition, mutex, clock, time) }
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn pthread_cond_clockwait(
    condition: Object,
    mutex: Object,
    clock: i32,
    time: *const Timespec,
) -> i32 {
    if !(0..=1).contains(&clock) {
        return sys::EINVAL;
    }
    let Some(deadline) = deadline(clock, time) else { return sys::EINVAL };
    if is_shared(condition, mutex) {
        go_home(current());
        return unsafe { real::pthread_cond_clockwait(condition, mutex, clock, time) };
    }
    wait(condition, mutex, Some(deadline))
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
pub(crate) unsafe extern "C" fn pthread_cond_signal(condition: Object) -> i32 {
    if flags(condition) & SHARED != 0 {
        unsafe { real::pthread_cond_signal(condition) };
    }
    table::wake(condition as usize, 1);
    0
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
pub(crate) unsafe extern "C" fn pthread_cond_broadcast(condition: Object) -> i32 {
    if flags(condition) & SHARED != 0 {
        unsafe { real::pthread_cond_broadcast(condition) };
    }
    table::wake(condition as usize, usize::MAX);
    0
}
