//! Fault injection: deliberate scheduler faults, to verify that the checkers detect them.
//!
//! Only tests enable the feature `fault-injection`. Without it, `fires` is a constant.
#![cfg_attr(
    not(feature = "fault-injection"),
    expect(unreachable_pub, reason = "tests use it from outside")
)]

#[cfg(feature = "fault-injection")]
use std::cell::Cell;

/// A fault of the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A sender finds a processor parked and does not unpark it.
    LostUnpark,
    /// An operation is woken but not queued.
    LostWakeUp,
    /// An operation is woken once and queued twice.
    DoubleRun,
}

#[cfg(feature = "fault-injection")]
thread_local! {
    static INJECTED: Cell<Option<(Fault, u32)>> = const { Cell::new(None) };
}

/// Injects `fault` once on this thread, after `opportunities` have passed. Replaces the previous fault, if any.
#[cfg(feature = "fault-injection")]
pub fn inject(fault: Fault, opportunities: u32) {
    INJECTED.set(Some((fault, opportunities)));
}

/// Removes the injected fault. Returns `true` if it had not fired.
#[cfg(feature = "fault-injection")]
pub fn clear() -> bool {
    INJECTED.take().is_some()
}

/// Whether `fault` fires now.
#[cfg(feature = "fault-injection")]
pub(crate) fn fires(fault: Fault) -> bool {
    match INJECTED.get() {
        Some((injected, 0)) if injected == fault => {
            INJECTED.set(None);
            true
        }
        Some((injected, opportunities)) if injected == fault => {
            INJECTED.set(Some((injected, opportunities - 1)));
            false
        }
        _ => false,
    }
}

/// No fault fires.
#[cfg(not(feature = "fault-injection"))]
pub(crate) const fn fires(_fault: Fault) -> bool {
    false
}
