//! Parking: the protocol by which a processor sleeps without missing a message.
//!
//! The protocol has two sides, which may run at the same time.
//!
//! The owner parks:
//!
//! 1. The owner stores `PARKED` to the state.
//! 2. The owner executes a sequentially consistent fence.
//! 3. The owner checks its inboxes. If one has a message, it stores `RUNNING` and does not sleep.
//! 4. The owner sleeps in [`World::park`](crate::World::park) and stores `RUNNING` when it returns.
//!
//! A sender, on any thread, notifies:
//!
//! 1. The sender puts its message into an inbox and marks it.
//! 2. The sender executes a sequentially consistent fence.
//! 3. The sender loads the state. If it is `PARKED`, the sender tries to exchange it for `NOTIFIED`.
//! 4. The sender whose exchange succeeds calls [`Unpark`]; all others return.
//!
//! No interleaving loses a message:
//!
//! - One of the two fences comes first in the order of all sequentially consistent fences (Dekker's
//!   argument). If it is the sender's, the owner finds the message in its step 3. If it is the owner's,
//!   the sender reads `PARKED` in its step 3, or a later value: `NOTIFIED` if another sender is about
//!   to unpark the owner, or `RUNNING` if the owner is awake. An awake owner drains its inboxes before
//!   it parks again.
//! - The owner may still be between its steps 3 and 4 when it is unparked. `Unpark` is therefore
//!   sticky: the sleep that follows returns immediately.
//! - Only the sender whose exchange succeeds calls `Unpark`, so one sender pays for the system call, however many there
//!   are.
//!
//! `loom.rs` checks both properties: `park_never_misses_a_wake` and `one_sender_pays_for_the_wake`.
//!
//! Another thread may access the data of a sleeping owner; see [`crate::mailbox::visit`]. The final state of an owner
//! is `CLOSED`; see [`crate::program::busy`].

use std::sync::OnceLock;

use crate::mailbox::fault_injection::{Fault, fires};
use crate::sync::{AtomicU8, Ordering, fence, spin_loop};

/// A function that wakes a parked processor, from any thread. It must be sticky: if it is called before the processor
/// sleeps, the next sleep returns immediately.
pub type Unpark = Box<dyn Fn() + Send + Sync>;

pub(super) const RUNNING: u8 = 0;
pub(super) const PARKED: u8 = 1;
pub(super) const NOTIFIED: u8 = 2;
pub(super) const VISITED: u8 = 3;
pub(super) const VISITED_NOTIFIED: u8 = 4;
pub(super) const CLOSED: u8 = 5;

/// The parking state of one processor.
#[derive(Default)]
pub(crate) struct Parking {
    pub(super) state: AtomicU8,
    unpark: OnceLock<Unpark>,
}

impl Parking {
    /// Sets the function that wakes the owner. Called once, before the owner first parks.
    pub(crate) fn install(&self, unpark: Unpark) {
        let _ = self.unpark.set(unpark);
    }

    /// Announces that the owner is about to sleep. Returns `true` if it may. `is_empty` is called *after* the
    /// announcement and must return whether all inboxes are empty. Call [`Parking::set_awake`] after the sleep.
    pub(crate) fn may_sleep(&self, is_empty: impl FnOnce() -> bool) -> bool {
        self.state.store(PARKED, Ordering::Release);
        fence(Ordering::SeqCst);
        if is_empty() {
            return true;
        }
        self.set_awake(spin_loop);
        false
    }

    /// Records that the owner is awake again. Calls `relax` repeatedly while a visit is in progress.
    pub(crate) fn set_awake(&self, relax: impl Fn()) {
        loop {
            let state = self.state.load(Ordering::Relaxed);
            match state {
                VISITED | VISITED_NOTIFIED => relax(),
                _ if self.exchange(state, RUNNING) => return,
                _ => (),
            }
        }
    }

    /// Records that the owner has ended or will never be built.
    pub(crate) fn close(&self) {
        self.state.store(CLOSED, Ordering::Release);
        fence(Ordering::SeqCst);
    }

    /// Whether the owner has ended. If a sender calls this after [`notify`](Self::notify), either it returns `true` or
    /// the owner finds the sender's message.
    pub(crate) fn is_closed(&self) -> bool {
        self.state.load(Ordering::Relaxed) == CLOSED
    }

    pub(super) fn exchange(&self, from: u8, to: u8) -> bool {
        self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    pub(super) fn unpark(&self) {
        if let Some(unpark) = self.unpark.get() {
            unpark();
        }
    }

    /// Whether the owner appears to be parked. Only a hint: the state may already have changed.
    pub(crate) fn is_parked(&self) -> bool {
        matches!(self.state.load(Ordering::Relaxed), PARKED | VISITED)
    }

    /// Wakes the owner if it is parked. The sender must have published its message before. Returns `true` if this call
    /// woke it.
    pub(crate) fn notify(&self) -> bool {
        fence(Ordering::SeqCst);
        let was_parked = loop {
            match self.state.load(Ordering::Relaxed) {
                PARKED if self.exchange(PARKED, NOTIFIED) => break true,
                // The visitor calls `Unpark`.
                VISITED if self.exchange(VISITED, VISITED_NOTIFIED) => return true,
                PARKED | VISITED => (),
                _ => break false,
            }
        };
        let was_parked = was_parked && !fires(Fault::LostUnpark);
        if was_parked {
            self.unpark();
        }
        was_parked
    }
}
