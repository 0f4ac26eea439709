//! Moving a thread from its home to the carriers and back.
//!
//! # Safety
//!
//! A thread runs on one kernel thread at a time. It leaves a stack before any other kernel thread can continue it: the
//! action that makes it runnable executes on the stack of the carrier, or on the home's waiting stack.

use core::ptr::{null, null_mut};
use core::sync::atomic::Ordering;

use crate::schedule::wake;
use crate::stats;
use crate::system::{real, sys};
use crate::thread::switch::{leave, switch};
use crate::thread::wait::Wait;
use crate::thread::{AT_HOME, Action, CANCEL, SIGNAL, STAYS_HOME, Thread, state};

/// Size of the stack on which a home waits. glibc's handler for changes of credentials may run on it.
pub(crate) const HOME_STACK_BYTES: usize = 16 * 1024;

/// The result of an attempt to leave home.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Departure {
    /// The thread was away. It may be at home again.
    Left,
    /// The thread has a request or stays at home, or a handler has waited since the wait began.
    Refused,
    /// The thread executes a signal handler, which must return on this kernel thread, because the kernel then restores
    /// the signal mask and the stack for handlers.
    InHandler,
}

/// Makes the home wait while the thread continues on carriers. Returns when the thread runs again, anywhere; or at once
/// if it must stay at home or check again whether to wait. `before_leave` runs first, with signals blocked.
pub(crate) fn leave_home(
    thread: &Thread,
    action: Action,
    wait: Wait,
    before_leave: impl FnOnce(),
) -> Departure {
    let is_requested = |requests| requests & (CANCEL | SIGNAL) != 0;
    let depart = |requests| (!is_requested(requests)).then_some(requests & !AT_HOME);
    let Ok(previous) = thread.requests.fetch_update(Ordering::AcqRel, Ordering::Acquire, depart)
    else {
        return Departure::Refused;
    };
    thread.home_tid();
    let mask = sys::set_signal_mask(sys::HOME_MASK);
    // A handler may have run before the signals were blocked, and may have taken the notification, node or request.
    let is_refused = || {
        is_requested(thread.requests.load(Ordering::Acquire))
            || thread.stays_home.get()
            || wait.is_disturbed(thread)
    };
    let departure = match mask & !thread.own_mask.get() & sys::HOME_MASK {
        0 if is_refused() => Departure::Refused,
        0 => Departure::Left,
        _ => Departure::InHandler,
    };
    if departure != Departure::Left {
        // A handler may interrupt this function.
        thread.requests.fetch_or(previous & AT_HOME, Ordering::AcqRel);
        sys::set_signal_mask(mask);
        return departure;
    }
    thread.mask.set(mask);
    thread.is_masked.set(true);
    before_leave();
    thread.action.set(action);
    thread.home.store(0, Ordering::Relaxed);
    unsafe { leave(thread.sp.as_ptr(), thread.home_stack.get(), thread, wait_at_home) };
    after_resume(thread);
    Departure::Left
}

/// Runs on the waiting stack, and returns the stack pointer with which the thread continues at home.
pub(crate) unsafe extern "C" fn wait_at_home(thread: *const Thread) -> usize {
    let thread = unsafe { &*thread };
    finish(thread);
    while thread.home.load(Ordering::Acquire) == 0 {
        sys::futex_wait(&thread.home, 0, None);
    }
    thread.sp.get()
}

/// Executes the action of a thread that has left its stack. Afterwards the thread may run elsewhere.
pub(crate) fn finish(thread: &Thread) {
    match thread.action.get() {
        Action::Park => {
            stats::suspended(thread);
            if !state::suspend(&thread.state) {
                wake::make_runnable(thread);
            }
        }
        Action::Yield => wake::make_runnable(thread),
        Action::GoHome => send_home(thread),
    }
}

/// Makes a runnable thread, which is in no queue, continue at home.
pub(crate) fn send_home(thread: &Thread) {
    thread.carrier.set(null_mut());
    let word = &raw const thread.home;
    thread.home.store(1, Ordering::Release);
    sys::futex_wake(word, 1);
}

/// Leaves the carrier. Returns when the thread runs again, anywhere.
pub(crate) fn leave_carrier(thread: &Thread, action: Action) {
    let carrier = unsafe { &*thread.carrier.get() };
    thread.action.set(action);
    unsafe { switch(thread.sp.as_ptr(), carrier.sp.get(), carrier.fs.get()) };
    after_resume(thread);
}

/// At home, restores the program's signal mask. Pending signals are delivered here.
fn after_resume(thread: &Thread) {
    if !thread.is_hollow() {
        thread.requests.fetch_or(AT_HOME, Ordering::AcqRel);
        if thread.has_transfer.get() {
            // Stopped here, because a handler may jump out of the call, after which the data is invalid.
            thread.transfer.lock().data = null();
        }
        thread.is_masked.set(false);
        sys::set_signal_mask(thread.mask.get());
    }
}

/// Brings the thread home for a call. It leaves again when it next waits, unless it must stay. A cancellation that is
/// requested in between takes effect in the call.
pub(crate) fn go_home(thread: &Thread) {
    if thread.is_hollow() {
        stats::count(&stats::HOME_CALLS);
        leave_carrier(thread, Action::GoHome);
        handle_requests(thread);
    }
}

/// Brings the thread home until its end. A cancellation that was requested before takes effect at the next cancellation
/// point.
pub(crate) fn stay_home(thread: &Thread) {
    go_home(thread);
    if !thread.stays_home.replace(true) {
        stats::count(&stats::HOME_FOR_GOOD);
        receive_cancellation(
            thread.requests.fetch_or(STAYS_HOME | AT_HOME, Ordering::AcqRel),
            thread,
        );
    }
}

fn receive_cancellation(requests: u32, thread: &Thread) {
    // The flag is set only here: libc's own cancellation points would otherwise end the thread on a carrier.
    if requests & CANCEL != 0 && thread.requests.fetch_and(!CANCEL, Ordering::AcqRel) & CANCEL != 0
    {
        unsafe { real::pthread_cancel(real::fs_base()) };
    }
}

/// Returns home for good if the thread was asked to. Returns whether it was.
#[inline]
pub(crate) fn handle_requests(thread: &Thread) -> bool {
    let requests = thread.requests.load(Ordering::Acquire);
    if requests & (CANCEL | SIGNAL) == 0 { false } else { handle_requests_slow(thread) }
}

#[cold]
fn handle_requests_slow(thread: &Thread) -> bool {
    stay_home(thread);
    receive_cancellation(thread.requests.fetch_and(!SIGNAL, Ordering::AcqRel), thread);
    true
}

/// Requests that a thread return home permanently. A thread at home gets `SIGNAL` instead of `CANCEL`. Returns
/// whether the thread was at home, where it then stays. The caller unparks the thread, whose wait ends like a spurious
/// wake-up.
pub(crate) fn request_home(thread: &Thread, reason: u32) -> bool {
    let is_home = |requests| requests & (STAYS_HOME | AT_HOME) != 0;
    let add = |requests| Some(requests | if is_home(requests) { SIGNAL } else { reason });
    let previous = thread.requests.fetch_update(Ordering::AcqRel, Ordering::Acquire, add);
    is_home(previous.unwrap_or_else(|requests| requests))
}
