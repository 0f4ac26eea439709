//! Faults planted in the scheduler, to see that those who look for such faults find them.
//!
//! Only with the feature `plant`, which only tests ask for: nothing of this is in a release.

use std::cell::Cell;

/// A fault of the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A sender finds a processor asleep and does not wake it.
    LostUnpark,
    /// An operation is re-enabled and is not queued.
    LostWakeUp,
    /// An operation is re-enabled once and queued twice.
    DoubleRun,
}

thread_local! {
    static PLANTED: Cell<Option<(Fault, u32)>> = const { Cell::new(None) };
}

/// Has `fault` happen on this thread once, after `chances` occasions that pass without it. Takes
/// the place of what was planted before.
pub fn inject(fault: Fault, chances: u32) {
    PLANTED.set(Some((fault, chances)));
}

/// Takes away what is planted. True if it has not happened.
pub fn clear() -> bool {
    PLANTED.take().is_some()
}

/// Whether `fault` happens now.
pub(crate) fn fires(fault: Fault) -> bool {
    match PLANTED.get() {
        Some((planted, 0)) if planted == fault => {
            PLANTED.set(None);
            true
        }
        Some((planted, chances)) if planted == fault => {
            PLANTED.set(Some((planted, chances - 1)));
            false
        }
        _ => false,
    }
}
