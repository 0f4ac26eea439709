//! What a processor runs at present, for other threads to read: the ground on which a supervisor
//! reports an operation that runs for too long.
//!
//! Published with plain stores by the processor: one word whenever it turns to another cohort, and
//! the operation's slot before each operation. The slot's header has the operation's vtable, which
//! knows its name, and the place of its invocation. A reader may see an operation of one cohort
//! beside the number of the next, so it looks at the number twice.
//!
//! # Safety
//! - The pointer to a header is null, or comes from a [`Slot`]. The memory of slots stays allocated
//!   until the program is dropped ([`crate::memory::slab`]), which the reader's [`Control`](crate::Control) keeps.
//! - The reader touches only the header's two [`Published`](crate::operation::published::Published) cells, which are atomic. Each holds a
//!   `&'static` at all times. They may be those of two operations if the slot is filled meanwhile.

use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use crate::operation::published::Site;
use crate::operation::slot::{Header, Slot};

/// An operation's type and where it was invoked.
type Named = (&'static str, Site);

/// In the place of a stage: no cohort runs.
const NO_STAGE: u64 = 0xff;

/// What one processor publishes.
pub(crate) struct Watch {
    /// How many cohorts have begun, or gone on, in the high bits; the stage in the low eight.
    cohort: AtomicU64,
    operation: AtomicPtr<Header>,
}

impl Default for Watch {
    fn default() -> Self {
        Self { cohort: AtomicU64::new(NO_STAGE), operation: AtomicPtr::new(std::ptr::null_mut()) }
    }
}

impl Watch {
    /// The processor turns to a cohort of `stage`, or to none.
    pub(crate) fn turn_to(&self, stage: Option<usize>) {
        let number = (self.cohort.load(Ordering::Relaxed) >> 8) + u64::from(stage.is_some());
        let stage = stage.map_or(NO_STAGE, |stage| stage as u64);
        self.operation.store(std::ptr::null_mut(), Ordering::Relaxed);
        self.cohort.store(number << 8 | stage, Ordering::Release);
    }

    /// An operation of the cohort is about to run.
    #[inline(always)]
    pub(crate) fn operation(&self, slot: Slot) {
        self.operation.store(std::ptr::from_ref(&*slot).cast_mut(), Ordering::Relaxed);
    }

    /// An operation of `stage` is about to run inside of its caller. Returns what
    /// [`leave`](Self::leave) puts back.
    #[inline(always)]
    pub(crate) fn enter(&self, stage: usize, slot: Slot) -> (u64, *mut Header) {
        let cohort = self.cohort.load(Ordering::Relaxed);
        let operation = self.operation.load(Ordering::Relaxed);
        self.cohort.store(cohort & !NO_STAGE | stage as u64, Ordering::Release);
        self.operation(slot);
        (cohort, operation)
    }

    /// Its caller goes on.
    #[inline(always)]
    pub(crate) fn leave(&self, (cohort, operation): (u64, *mut Header)) {
        self.cohort.store(cohort, Ordering::Release);
        self.operation.store(operation, Ordering::Relaxed);
    }

    /// What runs: the stage's number, the cohort's, the operation's name and place. The watch is of
    /// a program that the caller keeps.
    pub(crate) fn look(&self) -> Option<(usize, u64, Option<Named>)> {
        // A few times: a processor that turns so fast has nothing that runs for long.
        for _ in 0..4 {
            let cohort = self.cohort.load(Ordering::Acquire);
            let header = self.operation.load(Ordering::Acquire);
            if self.cohort.load(Ordering::Relaxed) != cohort {
                continue;
            }
            if cohort & NO_STAGE == NO_STAGE {
                return None;
            }
            // SAFETY: null, or of a slot, whose memory is still there (top of the file).
            let header = unsafe { header.as_ref() };
            let operation = header.map(|header| (header.operation(), header.site.get()));
            return Some(((cohort & NO_STAGE) as usize, cohort >> 8, operation));
        }
        None
    }
}
