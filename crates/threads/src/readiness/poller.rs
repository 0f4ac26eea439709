//! Readiness of descriptors: one epoll for the process, which any carrier may drain. Registrations are one-shot, so
//! closed and reused descriptors need no bookkeeping. Only sockets with trusted records stay registered (`records.rs`).
//!
//! # Safety
//!
//! The kernel writes events to an array on the stack.

use core::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use crate::readiness::{records, transfer};
use crate::schedule::run_queue;
use crate::schedule::wake::{EVENT, SLEEPING};
use crate::system::sys;
use crate::waiting::key::{IN, OUT, PRI, RDHUP, key};
use crate::waiting::{table, timers};

const ONESHOT: u32 = 1 << 30;
const ET: u32 = 1 << 31;

/// Maximum number of events of one call.
const MAX_EVENTS: usize = 256;

#[repr(C, packed)]
#[derive(Clone, Copy)]
struct Event {
    events: u32,
    data: u64,
}

/// Operations of `epoll_ctl`.
const ADD: usize = 1;
const REMOVE: usize = 2;
const MODIFY: usize = 3;

/// Lowest descriptor that this library uses.
const FIRST_DESCRIPTOR: usize = 500;
const F_DUPFD_CLOEXEC: usize = 1030;
const F_SETFD: usize = 2;
const FD_CLOEXEC: usize = 1;

/// The process that has opened the epoll.
static OWNER: AtomicU32 = AtomicU32::new(0);
static EPOLL: AtomicI32 = AtomicI32::new(-1);
/// The thread that polls: none, a kernel thread that will not sleep, or a carrier that may sleep.
static POLLER: AtomicU32 = AtomicU32::new(NONE);
static POLLS: AtomicU32 = AtomicU32::new(0);
const NONE: u32 = 0;
const NON_SLEEPING: u32 = 1;
const CARRIER: u32 = 2;

/// Opens the epoll. Returns false if the process has no descriptors left.
pub(crate) fn open() -> bool {
    let epoll = move_away(sys::call(sys::SYS_EPOLL_CREATE1, [0x80000, 0, 0, 0, 0, 0]) as i32);
    let bell = move_away(sys::call(sys::SYS_EVENTFD2, [0, 0x80800, 0, 0, 0, 0]) as i32);
    EPOLL.store(epoll, Ordering::SeqCst);
    OWNER.store(sys::process(), Ordering::Relaxed);
    EVENT.store(bell, Ordering::SeqCst);
    epoll >= 0 && bell >= 0 && control(ADD, bell, IN | ET) == 0
}

/// Moves a new file of this library to a high descriptor, which programs do not expect to get, if one is free.
pub(crate) fn move_away(descriptor: i32) -> i32 {
    let arguments = [descriptor as usize, F_DUPFD_CLOEXEC, FIRST_DESCRIPTOR, 0, 0, 0];
    let moved = sys::call(sys::SYS_FCNTL, arguments);
    if moved < 0 {
        sys::call(sys::SYS_FCNTL, [descriptor as usize, F_SETFD, FD_CLOEXEC, 0, 0, 0]);
        return descriptor;
    }
    sys::call(sys::SYS_CLOSE, [descriptor as usize, 0, 0, 0, 0, 0]);
    moved as i32
}

/// Whether a descriptor is one of this library, which the program has not opened.
pub(crate) fn is_own(descriptor: i32) -> bool {
    descriptor >= 0
        && [&EPOLL, &EVENT].iter().any(|known| known.load(Ordering::Relaxed) == descriptor)
        && is_owner()
}

/// The descriptors of this library, in ascending order.
pub(crate) fn own() -> [i32; 2] {
    let (one, other) = (EPOLL.load(Ordering::Relaxed), EVENT.load(Ordering::Relaxed));
    [one.min(other), one.max(other)]
}

fn control(operation: usize, descriptor: i32, events: u32) -> i32 {
    let event = Event { events, data: descriptor as u64 };
    let epoll = EPOLL.load(Ordering::Relaxed) as usize;
    let event = &raw const event as usize;
    -sys::call(sys::SYS_EPOLL_CTL, [epoll, operation, descriptor as usize, event, 0, 0]) as i32
}

/// Requests all later edges, and one now if the descriptor is already ready.
pub(super) fn register(descriptor: i32) -> bool {
    match control(MODIFY, descriptor, IN | PRI | RDHUP | ET) {
        0 => true,
        sys::ENOENT => control(ADD, descriptor, IN | PRI | RDHUP | ET) == 0,
        _ => false,
    }
}

/// As [`register`], for a registered descriptor. Returns false if it is not registered.
pub(super) fn renew(descriptor: i32) -> bool {
    control(MODIFY, descriptor, IN | PRI | RDHUP | ET) == 0
}

/// Removes the registration of a descriptor, if this process has opened the epoll. A child of `vfork` shares the memory
/// and the epoll.
pub(super) fn remove(descriptor: i32) {
    if is_owner() {
        control(REMOVE, descriptor, 0);
    }
}

/// Whether this process has opened the epoll.
pub(super) fn is_owner() -> bool {
    OWNER.load(Ordering::Relaxed) == sys::process()
}

/// Requests one event. Returns false for files without readiness.
pub(crate) fn arm(descriptor: i32, interest: u32) -> bool {
    records::clear_registered(descriptor);
    let half_close = if interest & IN == 0 { 0 } else { RDHUP };
    let events = interest | half_close | ONESHOT;
    match control(MODIFY, descriptor, events) {
        0 => true,
        sys::ENOENT => control(ADD, descriptor, events) == 0,
        _ => false,
    }
}

/// Drains the events; with `sleep`, waits for events while no thread is runnable. Returns false if another carrier
/// polls.
pub(crate) fn poll(sleep: bool) -> bool {
    let role = if sleep { CARRIER } else { NON_SLEEPING };
    while let Err(other) = POLLER.compare_exchange(NONE, role, Ordering::SeqCst, Ordering::SeqCst) {
        if other == CARRIER || !sleep {
            return false;
        }
        // The other thread polls only briefly, so an idle carrier waits for it.
        sys::call(sys::SYS_SCHED_YIELD, [0; 6]);
    }
    SLEEPING.store(sleep, Ordering::SeqCst);
    // A thread that becomes runnable after this check interrupts the wait.
    let timeout = if sleep && run_queue::len() == 0 { timeout() } else { 0 };
    let mut events = [Event { events: 0, data: 0 }; MAX_EVENTS];
    let epoll = EPOLL.load(Ordering::Relaxed) as usize;
    let count = sys::call(
        sys::SYS_EPOLL_WAIT,
        [epoll, events.as_mut_ptr() as usize, MAX_EVENTS, timeout as usize, 0, 0],
    );
    SLEEPING.store(false, Ordering::SeqCst);
    POLLER.store(NONE, Ordering::SeqCst);
    for event in events.iter().take(count.max(0) as usize) {
        let descriptor = event.data as i32;
        // The bell is edge-triggered and needs no reset.
        let is_bell = descriptor == EVENT.load(Ordering::Relaxed);
        records::note_event(descriptor, event.events);
        let continues = || {
            event.events == OUT
                && transfer::continue_transfer(key(descriptor), descriptor, |interest| {
                    arm(descriptor, interest)
                })
        };
        if !is_bell && !continues() {
            table::wake(key(descriptor), usize::MAX);
        }
    }
    timers::expire();
    POLLS.fetch_add(1, Ordering::Relaxed);
    true
}

/// Milliseconds until the earliest deadline, rounded up; -1 if there is none.
fn timeout() -> i32 {
    match timers::earliest() {
        u64::MAX => -1,
        deadline => deadline.saturating_sub(sys::now()).div_ceil(1_000_000).min(60_000) as i32,
    }
}

/// Changes whenever a kernel thread has polled.
pub(crate) fn polls() -> u32 {
    POLLS.load(Ordering::Relaxed)
}

/// Whether a kernel thread polls.
pub(crate) fn is_polling() -> bool {
    POLLER.load(Ordering::SeqCst) != NONE
}

/// Closes the descriptors of the parent in a child process.
pub(crate) fn reset() {
    for descriptor in [&EPOLL, &EVENT] {
        let number = descriptor.swap(-1, Ordering::SeqCst);
        if number >= 0 {
            sys::call(sys::SYS_CLOSE, [number as usize, 0, 0, 0, 0, 0]);
        }
    }
    POLLER.store(NONE, Ordering::SeqCst);
    records::reset();
}
