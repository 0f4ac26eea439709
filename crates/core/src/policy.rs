//! The three policies by which operations reach their stage's state (2002 §3.4).
//!
//! # Safety
//! An exclusive stage's state is one [`UnsafeCell`] for all processors. A processor makes a
//! reference to it only while it holds the stage's lock (`entered`), which it does for the length of
//! a cohort, on its own thread; and at most one at a time (`borrowed`). So the reference is unique.

use std::cell::{Cell, RefCell, UnsafeCell};
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

use crate::sync::{AtomicBool, Ordering};

/// What a processor must pass to run a cohort of a stage.
pub(crate) trait Gate {
    /// True if the cohort may run now.
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

/// The state of one partition, as an operation on it sees it. It stays on its processor.
pub struct Partition<S> {
    cell: Rc<RefCell<S>>,
    index: usize,
}

impl<S> Partition<S> {
    /// Runs `f` with the state. Operations of other requests run between two calls, so hold nothing
    /// over that must not change meanwhile.
    ///
    /// # Panics
    /// If called again from within `f`.
    #[inline]
    pub fn with<R>(&self, f: impl FnOnce(&mut S) -> R) -> R {
        f(&mut self.cell.borrow_mut())
    }

    /// The partition's number.
    pub fn index(&self) -> usize {
        self.index
    }
}

impl<S> Clone for Partition<S> {
    fn clone(&self) -> Self {
        Self { cell: self.cell.clone(), index: self.index }
    }
}

/// The partitions of one stage that one processor owns.
pub(crate) struct Partitions<S> {
    owned: Vec<Rc<RefCell<S>>>,
    processors: usize,
    count: usize,
}

impl<S> Partitions<S> {
    pub(crate) fn new(
        processor: usize,
        processors: usize,
        count: usize,
        make: &dyn Fn(usize) -> S,
    ) -> Self {
        let owned = (0..count)
            .filter(|partition| owner(*partition, processors) == processor)
            .map(|partition| Rc::new(RefCell::new(make(partition))))
            .collect();
        Self { owned, processors, count }
    }

    /// How many there are on all processors.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// The partition numbered `index`, which this processor must own.
    pub(crate) fn get(&self, index: usize) -> Partition<S> {
        Partition { cell: self.owned[index / self.processors].clone(), index }
    }

    /// The partition of a key: the high bits of a multiplicative hash, so that keys which are
    /// numbers in a row, or hashes themselves, spread alike.
    pub(crate) fn of_key(&self, key: u64) -> usize {
        let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((u128::from(hash) * self.count as u128) >> 64) as usize
    }
}

/// The processor that owns a partition.
pub(crate) fn owner(partition: usize, processors: usize) -> usize {
    partition % processors
}

/// The one state of an exclusive stage, for all processors.
pub(crate) struct ExclusiveState<S> {
    locked: AtomicBool,
    state: UnsafeCell<S>,
}

// SAFETY: the state moves between threads under the lock only, and is `Send`.
unsafe impl<S: Send> Sync for ExclusiveState<S> {}

impl<S> ExclusiveState<S> {
    pub(crate) fn new(state: S) -> Self {
        Self { locked: AtomicBool::new(false), state: UnsafeCell::new(state) }
    }
}

/// One processor's end of an exclusive stage.
pub(crate) struct LocalExclusive<S> {
    global: Arc<ExclusiveState<S>>,
    entered: Cell<bool>,
    borrowed: Cell<bool>,
}

impl<S> LocalExclusive<S> {
    pub(crate) fn new(global: Arc<ExclusiveState<S>>) -> Self {
        Self { global, entered: Cell::new(false), borrowed: Cell::new(false) }
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
    pub fn with<R>(&self, f: impl FnOnce(&mut S) -> R) -> R {
        struct Borrow<'a>(&'a Cell<bool>);
        impl Drop for Borrow<'_> {
            fn drop(&mut self) {
                self.0.set(false);
            }
        }
        let local = &*self.0;
        assert!(
            local.entered.get(),
            "an exclusive state is reached by its stage's operations only"
        );
        assert!(!local.borrowed.replace(true), "an exclusive state is borrowed once at a time");
        let _borrow = Borrow(&local.borrowed);
        // SAFETY: the lock is held by this thread and no other reference exists (top of the file).
        f(unsafe { &mut *local.global.state.get() })
    }
}

impl<S> Clone for Exclusive<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}
