//! Threads that accept signals which may be sent to the process.
//!
//! The kernel delivers such a signal to a kernel thread that does not block it, and waiting homes block all. So for each
//! signal that threads on carriers accept, one thread that accepts it stays at home, and represents them. The first thread
//! of the process is always at home, so others do this only for signals that it blocks.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::schedule::all;
use crate::schedule::home::stay_home;
use crate::schedule::notify::unpark;
use crate::system::sys::{self, bit};
use crate::thread::Thread;

/// Number of threads that represent each signal.
static REPRESENTATIVES: [AtomicU32; 65] = [const { AtomicU32::new(0) }; 65];
/// Signals without a representative that threads may accept.
static UNREPRESENTED: AtomicU64 = AtomicU64::new(0);
/// Signals that a process can receive, except those that are never blocked: faults, SIGPIPE, SIGKILL, SIGSTOP.
const ALL: u64 = sys::CARRIER_MASK & !bit(9) & !bit(19);

fn signals(set: u64) -> impl Iterator<Item = u32> {
    (1..=64).filter(move |signal| set & bit(*signal) != 0)
}

/// The signals of a set that no thread represents.
fn without_representative(set: u64) -> u64 {
    signals(set)
        .filter(|signal| REPRESENTATIVES[*signal as usize].load(Ordering::SeqCst) == 0)
        .fold(0, |all, signal| all | bit(signal))
}

/// Notes the signal mask with which a thread starts.
pub(crate) fn start(thread: &Thread, mask: u64) {
    let accepts = !mask & ALL;
    thread.own_mask.set(mask);
    thread.accepts.store(accepts, Ordering::SeqCst);
    let unrepresented_set = without_representative(accepts);
    if unrepresented_set != 0 {
        UNREPRESENTED.fetch_or(unrepresented_set, Ordering::SeqCst);
    }
}

/// Notes a new signal mask. If the thread accepts more signals than before and no thread represents them, it stays at
/// home.
pub(crate) fn update(thread: &Thread, mask: u64) {
    let accepts = !mask & ALL;
    thread.own_mask.set(mask);
    let opened = accepts & !thread.accepts.swap(accepts, Ordering::SeqCst);
    retire(thread, !accepts);
    let set = if thread.is_convertible() { without_representative(opened) } else { accepts };
    if set & !thread.represents.get() != 0 {
        represent(thread, set);
    }
}

/// Makes a thread stay at home if it accepts a signal whose representative has ended, or blocks it. Returns whether a
/// handler of a signal may have run there.
#[inline]
pub(crate) fn replace(thread: &Thread) -> bool {
    let unrepresented_set = UNREPRESENTED.load(Ordering::SeqCst);
    unrepresented_set != 0
        && replace_slowly(thread, unrepresented_set & thread.accepts.load(Ordering::SeqCst))
}

#[cold]
fn replace_slowly(thread: &Thread, unrepresented_set: u64) -> bool {
    if unrepresented_set == 0 || !thread.is_convertible() {
        return false;
    }
    let pending = if thread.is_hollow() { sys::pending_signals() & unrepresented_set } else { 0 };
    represent(thread, unrepresented_set);
    thread.signals.fetch_or(pending, Ordering::AcqRel);
    pending != 0
}

#[cold]
fn represent(thread: &Thread, set: u64) {
    let new = set & !thread.represents.get();
    signals(new).for_each(|signal| {
        REPRESENTATIVES[signal as usize].fetch_add(1, Ordering::SeqCst);
    });
    UNREPRESENTED.fetch_and(!set, Ordering::SeqCst);
    thread.represents.set(thread.represents.get() | set);
    if thread.is_convertible() {
        stay_home(thread);
    }
}

/// Ends the representation of the signals in `set` by a thread; of all signals when the thread ends.
pub(crate) fn retire(thread: &Thread, set: u64) {
    let set = thread.represents.get() & set;
    thread.represents.set(thread.represents.get() & !set);
    for signal in signals(set) {
        if REPRESENTATIVES[signal as usize].fetch_sub(1, Ordering::SeqCst) == 1 {
            UNREPRESENTED.fetch_or(bit(signal), Ordering::SeqCst);
        }
    }
}

/// Whether signals may lack a representative.
pub(crate) fn has_unrepresented() -> bool {
    UNREPRESENTED.load(Ordering::SeqCst) != 0
}

/// Wakes the threads that accept signals without a representative, so that one of them stays at home when it waits again.
pub(crate) fn wake_candidates() {
    let unrepresented_set = UNREPRESENTED.load(Ordering::SeqCst);
    let mut accepted = 0;
    all::for_each(|thread| {
        let set = unrepresented_set & thread.accepts.load(Ordering::SeqCst);
        accepted |= set;
        if set != 0 {
            unpark(thread);
        }
    });
    // The other signals are not missing: a thread that accepts one later represents it at once.
    UNREPRESENTED.fetch_and(!unrepresented_set | accepted, Ordering::SeqCst);
}

/// Resets the representatives in a child process.
pub(crate) fn reset(thread: &Thread) {
    REPRESENTATIVES.iter().for_each(|count| count.store(0, Ordering::SeqCst));
    UNREPRESENTED.store(0, Ordering::SeqCst);
    thread.represents.set(0);
    thread.accepts.store(0, Ordering::SeqCst);
}
