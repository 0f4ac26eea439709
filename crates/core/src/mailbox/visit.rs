//! Visits: the protocol by which a thread accesses the data of a sleeping processor.
//!
//! 1. The visitor exchanges `PARKED` for `VISITED` in the owner's [`Parking`]. On failure it does nothing.
//! 2. The visitor accesses the owner's data.
//! 3. The visitor exchanges `VISITED` for `PARKED`. If a sender has stored `VISITED_NOTIFIED` in the meantime, the
//!    visitor stores `NOTIFIED` and calls [`Unpark`](crate::Unpark) on behalf of the sender.
//!
//! An owner that wakes up waits for the end of a visit before it stores `RUNNING`. A visit therefore happens between
//! two stores of the owner: it acquires the data that the owner released with the first store, and releases it to the
//! owner before the second. `loom.rs` checks this in `a_visit_excludes_the_owner` and `a_visit_loses_no_wake`. An owner
//! that uses its data without having woken up visits itself.

use crate::mailbox::parking::{CLOSED, NOTIFIED, PARKED, Parking, RUNNING, VISITED};
use crate::sync::{Ordering, spin_loop};

/// A visit in progress. The owner does not wake up before this is dropped.
pub(crate) struct Visit<'a>(&'a Parking);

impl Parking {
    /// Begins a visit, if the owner sleeps.
    pub(crate) fn visit(&self) -> Option<Visit<'_>> {
        let sleeps = self.state.load(Ordering::Relaxed) == PARKED;
        (sleeps && self.exchange(PARKED, VISITED)).then(|| Visit(self))
    }

    /// Begins a visit by the owner itself, if it has not woken up.
    #[inline]
    pub(crate) fn visit_self(&self) -> Option<Visit<'_>> {
        match self.state.load(Ordering::Relaxed) {
            RUNNING | NOTIFIED | CLOSED => None,
            _ => self.wait_for_visit(),
        }
    }

    #[cold]
    fn wait_for_visit(&self) -> Option<Visit<'_>> {
        loop {
            match self.state.load(Ordering::Relaxed) {
                RUNNING | NOTIFIED | CLOSED => return None,
                PARKED if self.exchange(PARKED, VISITED) => return Some(Visit(self)),
                _ => spin_loop(),
            }
        }
    }
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        if !self.0.exchange(VISITED, PARKED) {
            self.0.state.store(NOTIFIED, Ordering::Release);
            self.0.unpark();
        }
    }
}
