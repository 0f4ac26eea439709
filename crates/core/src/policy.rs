//! The three policies by which operations reach their stage's state (2002 §3.4).
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

use crate::rebuild::Mended;
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
    cell: Rc<Mended<S>>,
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
        self.cell.with(f)
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
    owned: Vec<Rc<Mended<S>>>,
    processors: usize,
    count: usize,
}

impl<S> Partitions<S> {
    pub(crate) fn new(
        processor: usize,
        processors: usize,
        count: usize,
        mend: impl Fn(usize) -> Mended<S>,
    ) -> Self {
        let owned = (0..count)
            .filter(|partition| owner(*partition, processors) == processor)
            .map(|partition| Rc::new(mend(partition)))
            .collect();
        Self { owned, processors, count }
    }

    /// The partition numbered `index`, which this processor must own.
    pub(crate) fn get(&self, index: usize) -> Partition<S> {
        Partition { cell: self.owned[index / self.processors].clone(), index }
    }

    /// The partition of a key: the high bits of a multiplicative hash, so that keys which are
    /// numbers in a row, or hashes themselves, spread alike.
    pub(crate) fn of_key(&self, key: u64) -> usize {
        spread(key, self.count)
    }
}

/// One of `count` for each key.
pub(crate) fn spread(key: u64, count: usize) -> usize {
    let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((u128::from(hash) * count as u128) >> 64) as usize
}

/// The processor that owns a partition.
pub(crate) fn owner(partition: usize, processors: usize) -> usize {
    partition % processors
}

/// The one state of an exclusive stage, for all processors.
pub(crate) struct ExclusiveState<S> {
    locked: AtomicBool,
    state: Mended<S>,
}

// SAFETY: the state is touched by one thread at a time, under the lock, and is `Send`; so is what
// makes it anew.
unsafe impl<S: Send> Sync for ExclusiveState<S> {}

impl<S> ExclusiveState<S> {
    pub(crate) fn new(state: Mended<S>) -> Self {
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
