//! `prefetch(&data).await`: start the load of a cache line, and let the cohort's next operation run
//! while it comes. Memory latency is hidden across requests, not within one.
//!
//! An operation that waits so goes neither through a waker nor through its stage's queue. It goes
//! into a small ring of its processor, and from there back into the same cohort, first in first
//! out, when the others have been started or [`MOST`] wait. The ring is empty between cohorts.
//!
//! # Safety
//! A prefetch is a hint: it reads nothing and never faults, whatever the address. The instruction
//! touches no register and no flag of the program's.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::error::CallError;
use crate::operation::slot::{ENDED, FETCHING, Life, NO_SESSION, QUEUED, Slot, WOKEN};
use crate::processor::processor::{self, LocalStage, Processor};
use crate::processor::tally::Tally;
use crate::processor::turn::World;
use crate::processor::waker;

/// Operations of a cohort that may wait for prefetches at a time; the oldest is resumed first. A
/// processor has a dozen or two loads under way, so more would gain nothing.
pub const MAX_INTERLEAVED: usize = 64;

/// A cohort ends after so many prefetches for each operation that it may have.
const MAX_FETCHES: usize = 64;

/// Starts the load of the cache line where `data` begins. Await what is returned, then use the data:
/// until then the next operations of the same cohort run, and start loads of their own.
///
/// The load starts with the call, not with the `await`. Where there is nobody to run meanwhile (the
/// operation is alone in its cohort, [`MAX_INTERLEAVED`] wait already, or this is not awaited by an
/// operation itself but under another task's waker, or outside of a processor) the `await` goes on
/// at once. On processors other than x86-64 and AArch64 no load is started.
///
/// It pays where the data is likely in memory, not in a cache: a suspension costs about as much as
/// a load from the third-level cache.
///
/// ```
/// use phalanx_core::{Graph, prefetch};
///
/// let mut graph = Graph::new();
/// let table = graph.shared("table", vec![7u64; 1 << 10]);
/// # struct World;
/// # impl phalanx_core::World for World {
/// #     fn now(&self) -> u64 { 0 }
/// #     fn reap(&self) -> bool { false }
/// #     fn submit(&self) {}
/// #     fn park(&self, _: Option<u64>) {}
/// # }
/// let processor = graph.build(1).remove(0).grow(Box::new(|| ()));
/// processor.enter(|| {
///     for n in 0..64 {
///         let lookup = table.call(move |table| async move {
///             let row = &table[n * 997 % table.len()];
///             prefetch(row).await; // others start their loads
///             *row
///         });
///         # lookup.detach().unwrap();
///     }
///     # processor.turn(&World);
/// });
/// # assert_eq!(processor.live(), 0);
/// ```
#[inline(always)]
pub fn prefetch<T: ?Sized>(data: &T) -> Prefetch {
    start_load((&raw const *data).cast());
    Prefetch { waited: false }
}

#[inline(always)]
pub(crate) fn start_load(address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a hint (top of the file); every x86-64 processor has it.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch(address.cast(), _MM_HINT_T0);
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: a hint (top of the file).
    unsafe {
        std::arch::asm!(
            "prfm pldl1keep, [{0}]",
            in(reg) address,
            options(readonly, nostack, preserves_flags)
        );
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = address;
}

/// The future of [`prefetch`].
#[must_use = "the load has started; await this so that others run while it comes"]
#[derive(Debug)]
pub struct Prefetch {
    waited: bool,
}

impl Future for Prefetch {
    type Output = ();

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.waited, true) {
            return Poll::Ready(());
        }
        match processor::try_current(|processor| processor.may_interleave(context)) {
            Some(true) => Poll::Pending,
            _ => Poll::Ready(()),
        }
    }
}

/// The operations of the running cohort that wait for prefetches, in order.
pub(crate) struct Interleaved {
    /// Not in the processor itself, whose other fields are to lie together.
    ring: Box<[Cell<Option<Slot>>; MAX_INTERLEAVED]>,
    oldest: Cell<usize>,
    length: Cell<usize>,
    /// Those of a cohort that another stage's has interrupted.
    aside: Cell<usize>,
}

impl Default for Interleaved {
    fn default() -> Self {
        let ring = Box::new([const { Cell::new(None) }; MAX_INTERLEAVED]);
        Self { ring, oldest: Cell::new(0), length: Cell::new(0), aside: Cell::new(0) }
    }
}

impl Interleaved {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.length.get() == 0
    }

    #[inline]
    fn is_full(&self) -> bool {
        self.length.get() + self.aside.get() == MAX_INTERLEAVED
    }

    /// How many operations may be started: `most`, or none while as many wait as may.
    #[inline]
    pub(crate) fn limit(&self, most: usize) -> usize {
        if self.is_full() && !self.is_empty() { 0 } else { most }
    }

    /// Puts aside those that wait while `interruption` runs a cohort of another stage, which is not
    /// to resume them. There is one interruption at a time, and it leaves none behind.
    pub(crate) fn around(&self, interruption: impl FnOnce()) {
        /// Brings them back, also when the interruption panics.
        struct Back<'a> {
            ring: &'a Interleaved,
            oldest: usize,
            length: usize,
        }
        impl Drop for Back<'_> {
            fn drop(&mut self) {
                self.ring.aside.set(0);
                self.ring.oldest.set(self.oldest);
                self.ring.length.set(self.length);
            }
        }
        let (oldest, length) = (self.oldest.get(), self.length.get());
        let _back = Back { ring: self, oldest, length };
        self.aside.set(length);
        self.oldest.set((oldest + length) % MAX_INTERLEAVED);
        self.length.set(0);
        interruption();
        assert!(self.is_empty(), "a cohort leaves nobody waiting for a prefetch");
    }

    /// There must be room.
    fn push(&self, slot: Slot) {
        debug_assert!(!self.is_full());
        let position = (self.oldest.get() + self.length.get()) % MAX_INTERLEAVED;
        self.ring[position].set(Some(slot));
        self.length.set(self.length.get() + 1);
    }

    fn pop(&self) -> Option<Slot> {
        let oldest = self.oldest.get();
        let slot = self.ring[oldest].take()?;
        self.oldest.set((oldest + 1) % MAX_INTERLEAVED);
        self.length.set(self.length.get() - 1);
        Some(slot)
    }
}

impl Processor {
    /// Whether the running operation, polled with `context`, is to suspend for a prefetch; if so,
    /// it is marked.
    fn may_interleave(&self, context: &Context<'_>) -> bool {
        // Inside of its caller an operation does not wait: the caller would wait with it.
        let Some(slot) = self.running.get().filter(|_| !self.direct.is_inside()) else {
            return false;
        };
        // Under another's waker nothing would lead from here back to that task. An operation that
        // destroys itself or others is not polled again.
        if waker::named(context.waker(), self) != Some(slot.name.get())
            || slot.life.get() != Life::Started
            || !slot.has(QUEUED)
        {
            return false;
        }
        let stage = usize::from(slot.stage.get());
        let others = !self.interleaved.is_empty()
            || self.stage(stage).queue.len() > 0
            || self.post.stages[stage].len() > 0;
        if !others || self.interleaved.is_full() {
            return false;
        }
        slot.set(FETCHING);
        true
    }

    /// An operation of the running cohort has suspended for a prefetch. It stays marked as queued,
    /// so that whatever else wakes it, or ends it, finds it where it is.
    #[inline(never)]
    pub(crate) fn interleave(&self, slot: Slot, tally: &Tally) {
        slot.clear(FETCHING | WOKEN);
        self.interleaved.push(slot);
        if self.interleaved.is_full() {
            // No more are started until some have gone on.
            tally.limit.set(0);
        }
    }

    /// Resumes each operation that waits for a prefetch, once. False when the cohort is over: then
    /// those that still wait have gone back into the stage's queue.
    #[cold]
    #[inline(never)]
    pub(crate) fn resume_interleaved(
        &self,
        local: &LocalStage,
        start: u64,
        world: &impl World,
        tally: &Tally,
    ) -> bool {
        for _ in 0..self.interleaved.length.get() {
            let Some(slot) = self.interleaved.pop() else { break };
            tally.fetched.set(tally.fetched.get() + 1);
            self.resume(slot, tally);
        }
        self.running.set(None);
        let over = self.interleaving_is_over(local, start, world, tally);
        if over {
            while let Some(slot) = self.interleaved.pop() {
                tally.suspended.set(tally.suspended.get() + 1);
                slot.queued_at.set(self.now.get());
                local.queue.push(slot);
            }
        }
        !over
    }

    /// A round is short, but rounds without end would make a cohort without end. The clock is looked
    /// at once for many resumptions; and it may stand still, so these are bounded too.
    fn interleaving_is_over(
        &self,
        local: &LocalStage,
        start: u64,
        world: &impl World,
        tally: &Tally,
    ) -> bool {
        let fetched = tally.fetched.get();
        if fetched < tally.fetched_look.get() {
            return false;
        }
        tally.fetched_look.set(fetched + MAX_INTERLEAVED);
        fetched / MAX_FETCHES >= local.max_cohort.get()
            || world.now().saturating_sub(start) > local.cohort_time
    }

    fn resume(&self, slot: Slot, tally: &Tally) {
        if slot.has(ENDED) {
            self.running.set(None);
            tally.suspended.set(tally.suspended.get() + 1);
            return self.discard(slot, CallError::Ended);
        }
        if slot.session.get() != NO_SESSION {
            self.sessions.enter(slot.session.get());
        }
        self.poll_operation(slot, tally);
    }
}
