//! The number of the program's threads, whose last one ends the process.
//!
//! # Safety
//!
//! The destructor of a key has the signature of the C library. A thread's record lives until its destructors have run.

use core::sync::atomic::{AtomicU32, Ordering};

use crate::carriers::monitor;
use crate::lifecycle::{activation, waiting_stack};
use crate::schedule::{acceptors, all};
use crate::system::real;
use crate::thread;
use crate::waiting::{ends, table, timers};

/// Number of the program's threads, excluding those of this library.
static LIVE: AtomicU32 = AtomicU32::new(1);
static KEY: AtomicU32 = AtomicU32::new(u32::MAX);

/// Rounds of destructors that the C library executes (`PTHREAD_DESTRUCTOR_ITERATIONS`).
const DESTRUCTOR_ROUNDS: usize = 4;

/// Prepares to count the threads that end. Returns false if the process has no keys left.
pub(super) fn prepare() -> bool {
    if KEY.load(Ordering::Relaxed) == u32::MAX {
        let mut key = 0;
        if unsafe { real::pthread_key_create(&raw mut key, count_end) } != 0 {
            return false;
        }
        KEY.store(key, Ordering::Relaxed);
    }
    observe_end();
    LIVE.store(1, Ordering::SeqCst);
    true
}

/// Counts a thread that the calling one is about to create.
pub(crate) fn count_new() {
    LIVE.fetch_add(1, Ordering::SeqCst);
}

/// Stops counting a thread that could not be created.
pub(crate) fn discount() {
    LIVE.fetch_sub(1, Ordering::SeqCst);
}

/// Stops counting the calling thread at its end.
pub(crate) fn observe_end() {
    thread::current().announces_end.store(true, Ordering::SeqCst);
    unsafe {
        real::pthread_setspecific(KEY.load(Ordering::Relaxed), core::ptr::without_provenance(1))
    };
}

/// Stops counting the calling thread, whose destructors do not run. Returns whether it is the last one of an active
/// process.
pub(crate) fn end_last() -> bool {
    activation::is_active() && LIVE.fetch_sub(1, Ordering::SeqCst) == 1
}

/// Executes in the last round of a thread's destructors. The end of the last thread ends the process, as it does
/// without this library. This is explicit because the library's own threads do not end.
extern "C" fn count_end(round: *mut u8) {
    let round = round as usize;
    if round < DESTRUCTOR_ROUNDS {
        unsafe {
            real::pthread_setspecific(
                KEY.load(Ordering::Relaxed),
                core::ptr::without_provenance(round + 1),
            )
        };
        return;
    }
    let thread = thread::current();
    table::abandon_all(thread);
    thread.joins.store(core::ptr::null_mut(), Ordering::SeqCst);
    timers::remove(thread);
    all::remove(thread);
    acceptors::retire(thread, u64::MAX);
    if acceptors::has_unrepresented() {
        monitor::wake_up();
    }
    waiting_stack::end(thread);
    ends::announce(thread);
    if LIVE.fetch_sub(1, Ordering::SeqCst) == 1 {
        unsafe { real::exit(0) }
    }
}
