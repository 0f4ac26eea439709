//! Access to the state of shared and exclusive stages (2002 §3.4). For partitioned stages, see
//! [`crate::state::partition`].
//!
//! # Safety
//! The state of an exclusive stage is one cell for all processors, which is not `Sync` by itself. A processor accesses
//! it only on its own thread and while it holds the stage's lock (`entered`), that is, during a cohort. So one thread
//! at a time accesses the state and sees all earlier writes.

use std::cell::Cell;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

use crate::gate::Gate;
use crate::state::rebuildable::Rebuildable;
use crate::sync::{AtomicBool, Ordering};

/// The state of a shared stage as its operations access it: `&S`.
///
/// The program owns the inner `Arc`, and the processor owns the outer `Rc`, so an invocation needs no atomic operation.
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

/// The state of an exclusive stage, shared by all processors.
pub(crate) struct ExclusiveState<S> {
    locked: AtomicBool,
    state: Rebuildable<S>,
}

// SAFETY: one thread at a time accesses the state, under the lock. The state and its constructor are `Send`.
unsafe impl<S: Send> Sync for ExclusiveState<S> {}

impl<S> ExclusiveState<S> {
    pub(crate) fn new(state: Rebuildable<S>) -> Self {
        Self { locked: AtomicBool::new(false), state }
    }
}

/// One processor's handle of an exclusive stage's state.
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
        let lock = &self.global.locked;
        let free = lock.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok();
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

/// The state of an exclusive stage as its operations access it.
pub struct Exclusive<S>(pub(crate) Rc<LocalExclusive<S>>);

impl<S> Exclusive<S> {
    /// Runs `f` with the state, protected by the lock that the cohort holds.
    ///
    /// # Panics
    /// If called from within `f` or outside an operation of this stage. A panic in `f` propagates.
    #[inline]
    #[track_caller]
    pub fn with<R>(&self, f: impl FnOnce(&mut S) -> R) -> R {
        let local = &*self.0;
        assert!(local.entered.get(), "only operations of an exclusive stage may access its state");
        local.global.state.with(f)
    }
}

impl<S> Clone for Exclusive<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}
