//! Waiting for descriptors.

use crate::calls::threads::signals::must_return;
use crate::carriers::monitor;
use crate::readiness::watch::{self, Armed};
use crate::schedule::home::handle_requests;
use crate::system::{flags, sys};
use crate::thread::wait::Wait;
use crate::thread::{Thread, current};
use crate::waiting::key::key;
use crate::waiting::park::{Woken, park};
use crate::waiting::table;

/// The result of a wait.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Ready {
    /// The call may succeed now.
    Retry,
    TimedOut,
    /// The thread has returned home for good; the C library continues the call.
    Natively,
    /// A handler without SA_RESTART has run.
    Interrupted,
    /// Another thread has closed the descriptor, whose number may now refer to another file.
    Closed,
    /// The descriptor has no readiness: the C library continues the call, on the carrier.
    Unsupported,
}

/// The calling thread, if its calls that wait for descriptors are converted.
#[inline]
pub(crate) fn convertible() -> Option<&'static Thread> {
    let thread = current();
    if !thread.is_convertible() {
        return None;
    }
    handle_requests(thread);
    thread.is_convertible().then_some(thread)
}

/// The deadline that a socket option sets for a call that begins now; none for option 0.
pub(crate) fn deadline(descriptor: i32, option: usize) -> Option<u64> {
    let timeout = if option == 0 { None } else { flags::timeout(descriptor, option) };
    timeout.map(|timeout| sys::now().saturating_add(timeout))
}

/// Waits until a descriptor is ready for one of `interest`.
pub(crate) fn wait(
    thread: &Thread,
    descriptor: i32,
    interest: u32,
    deadline: Option<u64>,
) -> Ready {
    let at = key(descriptor);
    let mut armed = Armed::Refused;
    let arm = |union| {
        armed = watch::arm(descriptor, union, false);
        armed == Armed::Waits
    };
    if !table::insert(thread, at, interest, arm) {
        return if armed == Armed::Ready { Ready::Retry } else { Ready::Unsupported };
    }
    monitor::wake_up();
    let mut woken = Woken::Normally;
    let mut wait = Wait::begin(thread);
    while !thread.is_woken(at)
        && woken == Woken::Normally
        && deadline.is_none_or(|at| sys::now() < at)
    {
        woken = park(thread, wait, deadline);
        wait = Wait::begin(thread);
    }
    // A handler that has waited in the meantime has replaced the node.
    let is_own = thread.has_node(at);
    let ready = table::remove(thread, at);
    if is_own && thread.found_closed() {
        return Ready::Closed;
    }
    match woken {
        // A handler interrupts a call with a timeout even with SA_RESTART.
        Woken::Requested if must_return(thread, deadline.is_none()) => Ready::Interrupted,
        Woken::Requested if deadline.is_none() => Ready::Natively,
        _ if ready && (is_own || woken == Woken::Normally) => Ready::Retry,
        Woken::BySignal => Ready::Interrupted,
        // Try again with the remaining time.
        Woken::Requested => Ready::Retry,
        Woken::Normally => Ready::TimedOut,
    }
}
