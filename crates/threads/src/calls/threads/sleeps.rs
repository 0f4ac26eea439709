//! Sleeps and yields.
//!
//! # Safety
//!
//! The caller passes times that the C library may read and write.

use crate::calls::threads::signals::must_return;
use crate::readiness::poller;
use crate::schedule::home::{go_home, handle_requests, leave_carrier};
use crate::schedule::run_queue;
use crate::system::deadline::deadline;
use crate::system::real;
use crate::system::sys::{self, Timespec};
use crate::thread::masked::Masked;
use crate::thread::wait::Wait;
use crate::thread::{Action, Thread, current, site};
use crate::waiting::park::{Woken, park};

pub(crate) const REALTIME: i32 = 0;
const MONOTONIC: i32 = 1;
const ABSOLUTE: i32 = 1;

/// Sleeps until a monotonic time. Returns the remaining nanoseconds if a signal interrupts the sleep.
fn sleep_until(thread: &Thread, deadline: u64) -> Option<u64> {
    loop {
        let wait = Wait::begin(thread);
        let now = sys::now();
        if now >= deadline {
            return None;
        }
        let woken = park(thread, wait, Some(deadline));
        if woken != Woken::Normally {
            unsafe { real::pthread_testcancel() };
            if woken == Woken::BySignal || must_return(thread, false) {
                return Some(deadline.saturating_sub(sys::now()));
            }
        }
    }
}

/// Lets other threads of the carrier proceed, including those for which the kernel has an event.
fn yield_to_others(thread: &Thread) {
    if thread.is_hollow() && run_queue::len() == 0 {
        // Masked, so that the thread is not brought home while it holds a lock of the poller.
        let _masked = Masked::new();
        poller::poll(false);
    }
    yield_to_runnable(thread);
}

/// Lets the runnable threads proceed. Returns false if there is none, or the thread is at home.
fn yield_to_runnable(thread: &Thread) -> bool {
    let yields = thread.is_hollow() && run_queue::len() > 0;
    if yields {
        thread.site.set(site::YIELDED);
        leave_carrier(thread, Action::Yield);
        handle_requests(thread);
    }
    yields
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
pub(crate) unsafe extern "C" fn clock_nanosleep(
    clock: i32,
    flags: i32,
    time: *const Timespec,
    rest: *mut Timespec,
) -> i32 {
    let thread = current();
    handle_requests(thread);
    let converts = thread.is_convertible() && (clock == MONOTONIC || clock == REALTIME);
    let at = if converts { deadline(clock, time) } else { None };
    let Some(at) = at.filter(|_| unsafe { (*time).seconds >= 0 }) else {
        // For other clocks, such as that of the process, the kernel wakes the thread.
        go_home(thread);
        return unsafe { real::clock_nanosleep(clock, flags, time, rest) };
    };
    let is_absolute = flags & ABSOLUTE != 0;
    let length = unsafe {
        ((*time).seconds as u64)
            .saturating_mul(1_000_000_000)
            .saturating_add((*time).nanoseconds as u64)
    };
    let at = if is_absolute { at } else { sys::now().saturating_add(length) };
    if sys::now() >= at {
        yield_to_others(thread);
    }
    match sleep_until(thread, at) {
        None => 0,
        Some(left) => {
            if !is_absolute && !rest.is_null() {
                unsafe { *rest = sys::timespec(left) };
            }
            sys::EINTR
        }
    }
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn nanosleep(time: *const Timespec, rest: *mut Timespec) -> i32 {
    match unsafe { clock_nanosleep(MONOTONIC, 0, time, rest) } {
        0 => 0,
        error => sys::fail(error) as i32,
    }
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn usleep(microseconds: u32) -> i32 {
    let time = sys::timespec(u64::from(microseconds) * 1000);
    unsafe { nanosleep(&raw const time, core::ptr::null_mut()) }
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn sleep(seconds: u32) -> u32 {
    let time = Timespec { seconds: i64::from(seconds), nanoseconds: 0 };
    let mut rest = Timespec { seconds: 0, nanoseconds: 0 };
    match unsafe { clock_nanosleep(MONOTONIC, 0, &raw const time, &raw mut rest) } {
        0 => 0,
        _ => rest.seconds as u32 + u32::from(rest.nanoseconds >= 500_000_000),
    }
}

/// Threads that spin with `sched_yield` let the runnable threads of their carrier proceed.
#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
pub(crate) unsafe extern "C" fn sched_yield() -> i32 {
    if yield_to_runnable(current()) { 0 } else { unsafe { real::sched_yield() } }
}

aliases! { __nanosleep = nanosleep; __sched_yield = sched_yield; }
