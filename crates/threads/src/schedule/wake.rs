//! Carriers without work, and how they are woken: one sleeps in `epoll_wait`, the others on a futex.

use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

use crate::limits::MAX_LANES;
use crate::schedule::run_queue;
use crate::system::sys;
use crate::thread::Thread;
use crate::thread::masked::Masked;

/// Carriers that wait for work without polling.
static IDLE: AtomicU32 = AtomicU32::new(0);
/// Changes when an idle carrier should look for work.
static BELL: AtomicU32 = AtomicU32::new(0);
/// Carriers that run threads.
pub(crate) static BUSY: AtomicU32 = AtomicU32::new(0);
/// Whether a carrier sleeps in `epoll_wait`, or is about to.
pub(crate) static SLEEPING: AtomicBool = AtomicBool::new(false);
/// The descriptor of events that interrupt this sleep.
pub(crate) static EVENT: AtomicI32 = AtomicI32::new(-1);
/// For each lane, the number of times that the monitor found all carriers blocked while threads waited.
static CAPTURES: [AtomicU32; MAX_LANES] = [const { AtomicU32::new(0) }; MAX_LANES];

/// Wakes a carrier that sleeps in `epoll_wait`. Returns whether there was one.
pub(crate) fn interrupt() -> bool {
    let sleeping = SLEEPING.swap(false, Ordering::SeqCst);
    if sleeping {
        let one = 1_u64;
        let bell = EVENT.load(Ordering::Relaxed) as usize;
        sys::call(sys::SYS_WRITE, [bell, &raw const one as usize, 8, 0, 0, 0]);
    }
    sleeping
}

/// Waits until a thread is runnable. May return early.
pub(crate) fn wait_idle() {
    let bell = BELL.load(Ordering::SeqCst);
    IDLE.fetch_add(1, Ordering::SeqCst);
    if run_queue::len() == 0 {
        sys::futex_wait(&BELL, bell, None);
    }
    IDLE.fetch_sub(1, Ordering::SeqCst);
}

/// Queues a thread. Wakes a carrier if the caller is not a carrier, or if other threads are queued before this one.
pub(crate) fn make_runnable(thread: &Thread) {
    let _masked = Masked::new();
    let length = run_queue::push(thread);
    if length > 1 || run_queue::own_lane().is_none() {
        call_carrier();
    }
}

/// Wakes a carrier without work, if there is one.
pub(crate) fn call_carrier() -> bool {
    if interrupt() {
        return true;
    }
    if IDLE.load(Ordering::SeqCst) == 0 {
        return false;
    }
    BELL.fetch_add(1, Ordering::SeqCst);
    sys::futex_wake(&raw const BELL, 1);
    true
}

/// Records that the carrier of a lane is blocked, like all others, while threads wait.
pub(crate) fn count_capture(lane: usize) {
    CAPTURES[lane].fetch_add(1, Ordering::Relaxed);
}

/// Changes whenever the monitor finds all carriers blocked while threads wait.
pub(crate) fn captures(lane: usize) -> u32 {
    CAPTURES[lane].load(Ordering::Relaxed)
}

/// How many carriers run threads.
pub(crate) fn busy() -> u32 {
    BUSY.load(Ordering::SeqCst)
}

/// Resets the state in a child process.
pub(crate) fn reset() {
    SLEEPING.store(false, Ordering::SeqCst);
    for counter in [&IDLE, &BELL, &BUSY] {
        counter.store(0, Ordering::SeqCst);
    }
}
