//! Signals and cancellations of one thread.
//!
//! # Safety
//!
//! The caller passes a `pthread_t` that POSIX allows it to use.

use core::sync::atomic::Ordering;

use crate::carriers::{interrupt, monitor};
use crate::lifecycle::activation;
use crate::schedule::home::{go_home, handle_requests, request_home, stay_home};
use crate::schedule::notify::unpark;
use crate::schedule::{acceptors, all};
use crate::system::{real, sys};
use crate::thread::{AT_HOME, CANCEL, SIGNAL, STAYS_HOME, Thread, current, of};

const SIG_IGN: usize = 1;
const SA_RESTART: usize = 0x1000_0000;

/// The signal stays pending at the thread's home, where the thread receives it.
#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn pthread_kill(pthread: usize, signal: i32) -> i32 {
    unsafe { send(of(pthread), signal, || real::pthread_kill(pthread, signal)) }
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn pthread_sigqueue(pthread: usize, signal: i32, value: usize) -> i32 {
    unsafe { send(of(pthread), signal, || real::pthread_sigqueue(pthread, signal, value)) }
}

unsafe fn send(thread: &Thread, signal: i32, native: impl FnOnce() -> i32) -> i32 {
    if core::ptr::eq(thread, current()) {
        stay_home(thread);
    }
    let result = native();
    if result == 0 && call_home(thread, signal) {
        interrupt_carriers();
        handle_requests(current());
    }
    result
}

/// Asks a thread on a carrier to receive a signal at home. Returns whether the thread is on a carrier.
fn call_home(thread: &Thread, signal: i32) -> bool {
    let is_away = || thread.requests.load(Ordering::Acquire) & (AT_HOME | STAYS_HOME) == 0;
    let is_called = signal != 0 && thread.is_convertible() && is_away();
    if is_called {
        thread.signals.fetch_or(sys::bit(signal as u32), Ordering::AcqRel);
        request_home(thread, SIGNAL);
        unpark(thread);
    }
    is_called
}

/// Makes a thread return to its home, or stay there.
pub(super) fn keep_at_home(thread: &Thread) {
    if !request_home(thread, SIGNAL) {
        interrupt_carriers();
    }
    unpark(thread);
}

/// Interrupts carriers, because a thread that was called home may be computing.
fn interrupt_carriers() {
    interrupt::request();
    monitor::wake_up();
}

/// Keeps a thread at home that sends itself a signal which it blocks: carriers do not have its pending signals.
pub(super) fn keep_pending(thread: &Thread, signal: u32) {
    if (1..=64).contains(&signal) && sys::signal_mask() & sys::bit(signal) != 0 {
        stay_home(thread);
    }
}

/// As [`call_home`], after the calling thread, which is at home, sent a signal to a kernel thread.
pub(crate) fn call_home_by_tid(tid: u32, signal: i32) {
    let own = current();
    if own.home_tid() == tid {
        return keep_pending(own, signal as u32);
    }
    let mut is_called = false;
    all::for_each(|thread| is_called |= thread.tid.get() == tid && call_home(thread, signal));
    if is_called {
        interrupt_carriers();
    }
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn tgkill(process: i32, tid: i32, signal: i32) -> i32 {
    let thread = current();
    handle_requests(thread);
    go_home(thread);
    let result = unsafe { real::tgkill(process, tid, signal) };
    if result == 0 && process as u32 == sys::process() {
        call_home_by_tid(tid as u32, signal);
    }
    result
}

/// Whether a handler ran that interrupts the thread's call: calls that the kernel would restart are interrupted only
/// by handlers without `SA_RESTART`.
pub(crate) fn must_return(thread: &Thread, restarts: bool) -> bool {
    let signals = thread.signals.swap(0, Ordering::AcqRel) & !thread.mask.get();
    (1..=64).filter(|signal| signals & sys::bit(*signal) != 0).any(|signal| {
        // The kernel's form: handler, flags, restorer, mask.
        let mut action = [0_usize; 4];
        sys::call(
            sys::SYS_RT_SIGACTION,
            [signal as usize, 0, action.as_mut_ptr() as usize, 8, 0, 0],
        );
        let [handler, flags, ..] = action;
        handler > SIG_IGN && !(restarts && flags & SA_RESTART != 0)
    })
}

/// A thread that accepts a signal may have to receive it for the process, so it stays at home unless another such
/// thread does.
#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn pthread_sigmask(how: i32, set: *const u64, old: *mut u64) -> i32 {
    let thread = current();
    handle_requests(thread);
    if thread.is_hollow() {
        // A handler of a fault that jumps out leaves the fault blocked.
        let blocked = sys::signal_mask() & !sys::CARRIER_MASK;
        if blocked != 0 {
            thread.mask.set(thread.mask.get() | blocked);
            sys::set_signal_mask(sys::CARRIER_MASK);
        }
        go_home(thread);
    }
    let mut before = 0;
    let result = unsafe { real::pthread_sigmask(how, set, &raw mut before) };
    if result == 0 && !set.is_null() && activation::is_active() {
        if before & !thread.own_mask.get() & sys::CARRIER_MASK != 0 && thread.is_convertible() {
            // A handler that changes its mask can no longer be distinguished from the thread.
            stay_home(thread);
        }
        acceptors::update(thread, sys::signal_mask());
        if acceptors::has_unrepresented() {
            monitor::wake_up();
        }
    }
    if result == 0 && !old.is_null() {
        unsafe { *old = before };
    }
    result
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn sigprocmask(how: i32, set: *const u64, old: *mut u64) -> i32 {
    match unsafe { pthread_sigmask(how, set, old) } {
        0 => 0,
        error => sys::fail(error) as i32,
    }
}

/// A thread on a carrier cancels itself after it has returned home.
#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn pthread_cancel(pthread: usize) -> i32 {
    let thread = of(pthread);
    thread.is_cancelled.store(true, Ordering::SeqCst);
    if core::ptr::eq(thread, current()) {
        stay_home(thread);
        return unsafe { real::pthread_cancel(pthread) };
    }
    // A thread that is interrupted cancels itself within a handler, where the unwinder cannot be loaded.
    real::load_unwinder();
    // Threads that the C library created do not handle requests.
    let is_home = request_home(thread, CANCEL) || thread.home_stack.get() == 0;
    let result = if is_home { unsafe { real::pthread_cancel(pthread) } } else { 0 };
    if !is_home {
        interrupt_carriers();
    }
    // As in the C library, a detached thread may have ended; its memory is then part of a cached stack.
    unpark(thread);
    result
}
