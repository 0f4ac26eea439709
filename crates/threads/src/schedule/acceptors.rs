//! Threads that have unblocked signals which may be sent to the process.
//!
//! The kernel delivers such a signal to a kernel thread that does not block it, and waiting homes block all. So of the
//! threads that unblock a signal one stays at home and represents the others, which run on carriers.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::schedule::home::stay_home;
use crate::system::sys::bit;
use crate::thread::Thread;

/// The threads at home that accept a signal, by signal.
static AT_HOME: [AtomicU32; 65] = [const { AtomicU32::new(0) }; 65];
/// Signals whose last representative has ended or blocks them.
static LACKING: AtomicU64 = AtomicU64::new(0);

fn signals(set: u64) -> impl Iterator<Item = u32> {
    (1..=64).filter(move |signal| set & bit(*signal) != 0)
}

/// Notes the signals that a thread unblocks. It stays at home if no other thread at home accepts one of them.
pub(crate) fn unblock(thread: &Thread, set: u64) {
    let is_represented =
        signals(set).all(|signal| AT_HOME[signal as usize].load(Ordering::SeqCst) > 0);
    match is_represented {
        true => thread.unblocked.set(thread.unblocked.get() | set),
        false => represent(thread, set),
    }
}

/// Notes the signals that a thread blocks.
pub(crate) fn block(thread: &Thread, set: u64) {
    thread.unblocked.set(thread.unblocked.get() & !set);
    retire(thread, set);
}

/// Makes a thread stay at home if it accepts a signal whose representative has ended.
#[inline]
pub(crate) fn replace(thread: &Thread) {
    let lacking = LACKING.load(Ordering::SeqCst) & thread.unblocked.get();
    if lacking != 0 {
        represent(thread, lacking);
    }
}

#[cold]
fn represent(thread: &Thread, set: u64) {
    let new = set & !thread.represents.get();
    signals(new).for_each(|signal| {
        AT_HOME[signal as usize].fetch_add(1, Ordering::SeqCst);
    });
    LACKING.fetch_and(!set, Ordering::SeqCst);
    thread.represents.set(thread.represents.get() | set);
    stay_home(thread);
}

/// Ends the representation of signals by a thread, at its end for all.
pub(crate) fn retire(thread: &Thread, set: u64) {
    let set = thread.represents.get() & set;
    thread.represents.set(thread.represents.get() & !set);
    for signal in signals(set) {
        if AT_HOME[signal as usize].fetch_sub(1, Ordering::SeqCst) == 1 {
            LACKING.fetch_or(bit(signal), Ordering::SeqCst);
        }
    }
}

/// Forgets the threads of the parent in a child process.
pub(crate) fn reset(thread: &Thread) {
    AT_HOME.iter().for_each(|count| count.store(0, Ordering::SeqCst));
    LACKING.store(0, Ordering::SeqCst);
    thread.represents.set(0);
    thread.unblocked.set(0);
}
