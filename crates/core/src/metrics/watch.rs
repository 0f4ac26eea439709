//! Publication of the operation that a processor is running, for readers on other threads. A supervisor uses it to
//! report operations that run too long.
//!
//! The processor publishes with plain stores: one word whenever it switches to another cohort, and the operation's slot
//! before each operation. The slot's header contains the vtable, which has the operation's name, and the location of
//! its invocation. A reader might combine an operation of one cohort with the number of the next, so it reads the
//! number twice.
//!
//! # Safety
//! - The pointer to a header is null, or comes from a [`Slot`]. The memory of slots stays allocated
//!   until the program is dropped ([`crate::memory::slab`]); the reader's [`Control`](crate::Control)
//!   keeps the program alive.
//! - The reader accesses only the header's two [`StaticRef`](crate::operation::static_ref::StaticRef) cells, which are
//!   atomic and always contain a `&'static`. If the slot is reused in the meantime, the two may belong to different
//!   operations.

use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use crate::operation::slot::Site;
use crate::operation::slot::{Header, Slot};
use crate::panic::catch_panic;

/// An operation's type name and the location of its invocation.
type NamedSite = (&'static str, Site);

/// The stage number that means that no cohort is running.
const NO_STAGE: u64 = 0xff;

/// The published state of one processor.
pub(crate) struct Watch {
    /// The number of cohorts begun or continued in the high bits; the stage in the low eight.
    cohort: AtomicU64,
    operation: AtomicPtr<Header>,
}

impl Default for Watch {
    fn default() -> Self {
        Self { cohort: AtomicU64::new(NO_STAGE), operation: AtomicPtr::new(std::ptr::null_mut()) }
    }
}

impl Watch {
    /// Records that the processor switches to a cohort of `stage`, or to none.
    pub(crate) fn set_stage(&self, stage: Option<usize>) {
        let number = (self.cohort.load(Ordering::Relaxed) >> 8) + u64::from(stage.is_some());
        let stage = stage.map_or(NO_STAGE, |stage| stage as u64);
        self.operation.store(std::ptr::null_mut(), Ordering::Relaxed);
        self.cohort.store(number << 8 | stage, Ordering::Release);
    }

    /// Records that an operation of the cohort is about to run.
    #[inline(always)]
    pub(crate) fn operation(&self, slot: Slot) {
        self.operation.store(std::ptr::from_ref(&*slot).cast_mut(), Ordering::Relaxed);
    }

    /// Records that an operation of `stage` is about to run inline in its caller. Returns the state
    /// that [`end_inline`](Self::end_inline) restores.
    #[inline(always)]
    pub(crate) fn begin_inline(&self, stage: usize, slot: Slot) -> (u64, *mut Header) {
        let cohort = self.cohort.load(Ordering::Relaxed);
        let operation = self.operation.load(Ordering::Relaxed);
        self.cohort.store(cohort & !NO_STAGE | stage as u64, Ordering::Release);
        self.operation(slot);
        (cohort, operation)
    }

    /// Restores the state when the caller continues.
    #[inline(always)]
    pub(crate) fn end_inline(&self, (cohort, operation): (u64, *mut Header)) {
        self.cohort.store(cohort, Ordering::Release);
        self.operation.store(operation, Ordering::Relaxed);
    }

    /// Runs a destructor as part of its operation, so that a supervisor can name the operation if the destructor takes
    /// too long. Discards a panic.
    pub(crate) fn destroy(&self, slot: Slot, drop: impl FnOnce()) {
        let before = self.begin_inline(usize::from(slot.stage.get()), slot);
        catch_panic(drop);
        self.end_inline(before);
    }

    /// Returns the index of the current stage, the number of the cohort, and the operation's name and location. The
    /// caller must keep the program alive.
    pub(crate) fn read(&self) -> Option<(usize, u64, Option<NamedSite>)> {
        // Retry only a few times: if the cohort keeps changing, no operation is running for long.
        for _ in 0..4 {
            let cohort = self.cohort.load(Ordering::Acquire);
            let header = self.operation.load(Ordering::Acquire);
            if self.cohort.load(Ordering::Relaxed) != cohort {
                continue;
            }
            if cohort & NO_STAGE == NO_STAGE {
                return None;
            }
            // SAFETY: the pointer is null or refers to the header of a slot, whose memory is still allocated (top of
            // the file).
            let header = unsafe { header.as_ref() };
            let operation = header.map(|header| (header.operation(), header.site.get()));
            return Some(((cohort & NO_STAGE) as usize, cohort >> 8, operation));
        }
        None
    }
}
