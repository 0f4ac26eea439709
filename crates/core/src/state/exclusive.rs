//! How operations reach the state of shared and exclusive stages (2002 §3.4); partitioned ones are in
//! [`crate::state::partition`].
//!
//! # Safety
//! An exclusive stage's state is one cell for all processors, which is not `Sync` of itself. A
//! processor touches it only while it holds the stage's lock (`entered`), which it does for the
//! length of a cohort, on its own thread; so one thread at a time touches it, and each sees what
//! those before have written.

use std::cell::Cell;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

use crate::state::rebuildable::Rebuildable;
use crate::sync::{AtomicBool, Ordering};

/// What a processor must pass to run a cohort of a stage, such as a lock that is taken once a cohort.
///
/// A processor that may not enter goes on to its next stage and asks again in its next turn; it
/// does not sleep while operations wait at the gate. A panic in here ends the processor.
pub trait Gate {
    /// True if the cohort may run now; [`leave`](Self::leave) follows.
    fn enter(&self) -> bool;
    /// The cohort is over.
    fn leave(&self);
}

/// The state of a shared stage, as an operation on it sees it: `&S`.
///
/// The inner `Arc` is the program's; the outer `Rc` is the processor's, so that an invocation pays
/// for no atomic operation.
#[allow(clippy::redundant_allocation, reason = "a plain count on top of an atomic one")]
pub struct Shared<S>(pub(crate) Rc<Arc<S>>);

impl<S> Deref for Shared<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.0
    }
}

impl<S> Clone for Shared<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// The one state of an exclusive stage, for all processors.
pub(crate) struct ExclusiveState<S> {
    locked: AtomicBool,
    state: Rebuildable<S>,
}

// SAFETY: the state is touched by one thread at a time, under the lock, and is `Send`; so is what
// makes it anew.
unsafe impl<S: Send> Sync for ExclusiveState<S> {}

impl<S> ExclusiveState<S> {
    pub(crate) fn new(state: Rebuildable<S>) -> Self {
        Self { locked: AtomicBool::new(false), state }
    }
}

/// One processor's end of an exclusive stage.
pub(crate) struct LocalExclusive<S> {
    global: Arc<ExclusiveState<S>>,
    entered: Cell<bool>,
}

impl<S> LocalExclusive<S> {
    pub(crate) fn new(global: Arc<ExclusiveState<S>>) -> Self {
        Self { global, entered: Cell::new(false) }
    }
}

impl<S> Gate for LocalExclusive<S> {
    fn enter(&self) -> bool {
        let free = self
            .global
            .locked
            .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
            .is_ok();
        if free {
            self.entered.set(true);
        }
        free
    }

    fn leave(&self) {
        assert!(self.entered.replace(false), "left without having entered");
        self.global.locked.store(false, Ordering::Release);
    }
}

/// The state of an exclusive stage, as an operation on it sees it.
pub struct Exclusive<S>(pub(crate) Rc<LocalExclusive<S>>);

impl<S> Exclusive<S> {
    /// Runs `f` with the state, under the lock that the cohort holds.
    ///
    /// # Panics
    /// If called from within `f`, or from outside an operation of this stage.
    #[inline]
    #[track_caller]
    pub fn with<R>(&self, f: impl FnOnce(&mut S) -> R) -> R {
        let local = &*self.0;
        assert!(
            local.entered.get(),
            "an exclusive state is reached by its stage's operations only"
        );
        local.global.state.with(f)
    }
}

impl<S> Clone for Exclusive<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}
