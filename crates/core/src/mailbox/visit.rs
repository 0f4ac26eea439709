//! Visits: a thread accesses the data of a processor that sleeps.
//!
//! 1. The visitor exchanges `PARKED` for `VISITED` in the owner's [`Parking`]. On failure it does nothing.
//! 2. The visitor accesses the owner's data.
//! 3. The visitor exchanges `VISITED` for `PARKED`. If a sender has stored `VISITED_NOTIFIED` meanwhile, the
//!    visitor stores `NOTIFIED` and calls [`Unpark`](crate::Unpark) in the sender's place.
//!
//! An owner that wakes up waits for the end of a visit before it stores `RUNNING`. So a visit lies between two
//! stores of the owner, acquires what the owner has released by the first one, and releases to the second one
//! (`a_visit_excludes_the_owner` and `a_visit_loses_no_wake` in `loom.rs`). An owner that uses its data without
//! having woken up visits itself.

use crate::mailbox::parking::{CLOSED, NOTIFIED, PARKED, Parking, RUNNING, VISITED};
use crate::sync::{Ordering, spin_loop};

/// A visit. The owner does not wake up before it is dropped.
pub(crate) struct Visit<'a>(&'a Parking);

impl Parking {
    /// Begins a visit, if the owner sleeps.
    pub(crate) fn visit(&self) -> Option<Visit<'_>> {
        let sleeps = self.state.load(Ordering::Relaxed) == PARKED;
        (sleeps && self.exchange(PARKED, VISITED)).then(|| Visit(self))
    }

    /// Begins a visit of the owner to itself, if it has not woken up.
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
