//! Parking: a thread waits until it is notified. A notification is remembered, so a park may return at once.
//!
//! # Safety
//!
//! A thread's record outlives each notification: the notifier found the thread in a queue under its lock, or holds a
//! `pthread_t` that the program may use.

use core::sync::atomic::{Ordering, compiler_fence};

use crate::schedule::acceptors;
use crate::schedule::home::{Departure, handle_requests, leave_carrier, leave_home, stay_home};
use crate::stats;
use crate::system::sys;
use crate::thread::state::{self, PARKED_AT_HOME, RUNNING};
use crate::thread::wait::{Wait, disturb};
use crate::thread::{Action, Thread, site};
use crate::waiting::{table, timers};

/// The reasons for which a park ends, apart from notifications and spurious wake-ups.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Woken {
    Normally,
    /// A signal or a cancellation was sent to the thread, which now stays at home.
    Requested,
    /// A handler interrupted a thread at home, and the kernel has not restarted the wait, because the handler has no
    /// SA_RESTART or the wait has a deadline.
    BySignal,
}

/// Waits for a notification, at most until `deadline` (monotonic nanoseconds). May return early, and does so if a
/// handler has waited since `wait` began. After `wait` began, the caller must have checked whether to wait.
pub(crate) fn park(thread: &Thread, wait: Wait, deadline: Option<u64>) -> Woken {
    if thread.is_captured_often() && thread.is_convertible() {
        stay_home(thread);
    }
    if acceptors::replace(thread) {
        return Woken::Requested;
    }
    if !thread.is_convertible() {
        return park_at_home(thread, wait, deadline);
    }
    thread.site.set(site::here(thread, table::kind_of_wait(thread)));
    let add_timer = || deadline.into_iter().for_each(|deadline| timers::add(thread, deadline));
    // Handlers that wait change the site.
    let site = thread.site.get();
    let departure = match thread.is_hollow() {
        true => {
            add_timer();
            leave_carrier(thread, Action::Park);
            Departure::Left
        }
        // A handler that runs before the thread leaves may wait, and have a timer.
        false => leave_home(thread, Action::Park, wait, add_timer),
    };
    if departure == Departure::Left {
        stats::resumed(site);
        if deadline.is_some() {
            timers::remove(thread);
        }
    }
    if departure == Departure::InHandler {
        return park_at_home(thread, wait, deadline);
    }
    resume(thread);
    if handle_requests(thread) { Woken::Requested } else { Woken::Normally }
}

/// Takes a notification, which may be that of a wait that the calling handler has interrupted.
fn resume(thread: &Thread) {
    disturb(thread);
    state::resume(&thread.state);
}

fn park_at_home(thread: &Thread, wait: Wait, deadline: Option<u64>) -> Woken {
    let (done, failed) = (Ordering::AcqRel, Ordering::Acquire);
    let parked = thread.state.compare_exchange(RUNNING, PARKED_AT_HOME, done, failed);
    let mut error = 0;
    // A handler that waits from here on changes the state, so the kernel does not restart the wait.
    compiler_fence(Ordering::SeqCst);
    if parked.is_ok() && !wait.is_disturbed(thread) {
        while thread.state.load(Ordering::Acquire) == PARKED_AT_HOME
            && error != sys::EINTR
            && error != sys::ETIMEDOUT
        {
            error = sys::futex_wait(&thread.state, PARKED_AT_HOME, deadline);
        }
    }
    resume(thread);
    match handle_requests(thread) {
        true => Woken::Requested,
        false if error == sys::EINTR => Woken::BySignal,
        false => Woken::Normally,
    }
}
