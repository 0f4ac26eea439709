//! The state of a partition on its owner, and counted references to it.
//!
//! [`OwnedRef`] is like an `Rc`, but another thread may read its count while the owner sleeps
//! ([`crate::handle::policy::moving::take_over`]). Only the owner's thread writes the count, so it needs no
//! read-modify-write operations.
//!
//! # Safety
//! The count is the number of references, and the last one frees the allocation. A reference stays on its thread,
//! because it is neither `Send` nor `Sync`. A thread that has access to the only reference, has read a count of one,
//! and prevents the owner's thread from creating another reference has exclusive access: the count was stored with
//! release ordering after the last use of each other reference.

use std::cell::{Cell, RefCell};
use std::ops::Deref;
use std::ptr::NonNull;
use std::task::Waker;

use crate::state::rebuildable::Rebuildable;
use crate::sync::AtomicUsize;
use crate::sync::Ordering::{Acquire, Relaxed, Release};

/// The state of a partition.
pub(super) struct Owned<S> {
    references: AtomicUsize,
    pub(super) state: Rebuildable<S>,
    /// Whether a move is pending, so that no operation may enter.
    pub(super) closed: Cell<bool>,
    /// The waker to wake when the last operation has left.
    pub(super) drained: RefCell<Option<Waker>>,
}

/// A counted reference.
pub(super) struct OwnedRef<S>(NonNull<Owned<S>>);

impl<S> OwnedRef<S> {
    pub(super) fn new(state: Rebuildable<S>) -> Self {
        let references = AtomicUsize::new(1);
        let owned =
            Owned { references, state, closed: Cell::default(), drained: RefCell::default() };
        Self(NonNull::from(Box::leak(Box::new(owned))))
    }

    /// The number of references.
    pub(super) fn count(&self) -> usize {
        self.references.load(Acquire)
    }

    /// Converts the reference into the state, if it is the only one.
    pub(super) fn into_state(self) -> Result<Rebuildable<S>, Self> {
        if self.count() != 1 {
            return Err(self);
        }
        let owned = std::mem::ManuallyDrop::new(self).0;
        // SAFETY: this is the last reference, and it is not dropped (top of the file).
        Ok(unsafe { Box::from_raw(owned.as_ptr()) }.state)
    }
}

impl<S> Deref for OwnedRef<S> {
    type Target = Owned<S>;

    #[inline(always)]
    fn deref(&self) -> &Owned<S> {
        // SAFETY: the allocation lives as long as any reference (top of the file).
        unsafe { self.0.as_ref() }
    }
}

impl<S> Clone for OwnedRef<S> {
    #[inline]
    fn clone(&self) -> Self {
        self.references.store(self.references.load(Relaxed) + 1, Relaxed);
        Self(self.0)
    }
}

impl<S> Drop for OwnedRef<S> {
    #[inline]
    fn drop(&mut self) {
        match self.references.load(Relaxed) - 1 {
            // SAFETY: this is the last reference (top of the file).
            0 => drop(unsafe { Box::from_raw(self.0.as_ptr()) }),
            left => self.references.store(left, Release),
        }
    }
}
