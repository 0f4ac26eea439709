//! Waiting for descriptors.
//!
//! # Safety
//!
//! System calls write only to variables of this file.

use crate::calls::threads::signals::must_return;
use crate::readiness::poller;
use crate::schedule::home::obey;
use crate::system::sys;
use crate::thread::{Thread, current};
use crate::waiting::key::key;
use crate::waiting::park::{Woken, park};
use crate::waiting::table;

const F_GETFL: usize = 3;
const O_NONBLOCK: isize = 0o4000;
const SOL_SOCKET: usize = 1;
pub(crate) const SO_TYPE: usize = 3;
pub(crate) const SO_RCVTIMEO: usize = 20;
pub(crate) const SO_SNDTIMEO: usize = 21;

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
    /// The descriptor has no readiness: the C library continues the call, on the carrier.
    Unsupported,
}

/// The thread, if calls that wait for descriptors are converted for it.
#[inline]
pub(crate) fn convertible() -> Option<&'static Thread> {
    let thread = current();
    if !thread.is_convertible() {
        return None;
    }
    obey(thread);
    thread.is_convertible().then_some(thread)
}

/// Whether the program has made a descriptor non-blocking.
pub(crate) fn is_nonblocking(descriptor: i32) -> bool {
    let flags = sys::call(sys::SYS_FCNTL, [descriptor as usize, F_GETFL, 0, 0, 0, 0]);
    flags < 0 || flags & O_NONBLOCK != 0
}

/// The deadline that a socket option sets for a call that begins now.
pub(crate) fn socket_deadline(descriptor: i32, option: usize) -> Option<u64> {
    let [seconds, microseconds] = option_value(descriptor, option)?;
    let length = seconds * 1_000_000_000 + microseconds * 1000;
    (length != 0).then(|| sys::now().saturating_add(length))
}

/// The value of a socket option that is a number.
pub(crate) fn socket_option(descriptor: i32, option: usize) -> Option<u64> {
    option_value(descriptor, option).map(|[value, _]| value)
}

fn option_value(descriptor: i32, option: usize) -> Option<[u64; 2]> {
    let (mut value, mut size) = ([0_u64; 2], 16_u32);
    let arguments = [
        descriptor as usize,
        SOL_SOCKET,
        option,
        value.as_mut_ptr() as usize,
        &raw mut size as usize,
        0,
    ];
    (sys::call(sys::SYS_GETSOCKOPT, arguments) == 0).then_some(value)
}

/// Waits until a descriptor is ready for one of `interest`.
pub(crate) fn wait(
    thread: &Thread,
    descriptor: i32,
    interest: u32,
    deadline: Option<u64>,
) -> Ready {
    let at = key(descriptor);
    if !table::insert(thread, at, interest, |union| poller::arm(descriptor, union)) {
        return Ready::Unsupported;
    }
    let mut woken = Woken::Normally;
    while !thread.is_woken()
        && woken == Woken::Normally
        && deadline.is_none_or(|at| sys::now() < at)
    {
        woken = park(thread, deadline);
    }
    let ready = table::remove(thread);
    match woken {
        Woken::Summoned if must_return(thread, true) => Ready::Interrupted,
        Woken::Summoned | Woken::BySignal => Ready::Natively,
        Woken::Normally if ready => Ready::Retry,
        Woken::Normally => Ready::TimedOut,
    }
}
