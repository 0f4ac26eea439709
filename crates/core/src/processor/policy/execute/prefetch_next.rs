//! Prefetching of suspended operations, so that a resumed operation finds its future in the cache.
//!
//! While few operations are alive, all of them are in the cache and nothing is prefetched. With many, a resumed
//! operation was last accessed thousands of operations ago, and its first accesses miss the cache, line after line. But
//! a cohort is a list, so the next operation is known: while one runs, the lines of the next are loaded. Code that
//! wakes many operations can first [load their headers](prefetch_wakers) together.
//!
//! Unlike [`prefetch`](crate::processor::policy::execute::interleave), which an operation awaits for data whose address
//! only it knows, this applies to all operations and suspends none.

use std::task::Waker;

use crate::memory::prefetch::start_load;
use crate::operation::slot::{Header, Slot};
use crate::operation::state::SlotState;
use crate::processor;
use crate::processor::operation::waker;
use crate::processor::processor::Processor;

const CACHE_LINE_BYTES: usize = 64;
/// Maximum number of lines loaded for one operation. A CPU core sustains only a few dozen loads at a time.
const MAX_PREFETCHED_LINES: usize = 40;

/// Starts to load the memory that waking each of `wakers` accesses first. Call it before you wake many operations, so
/// that these loads overlap. Wakers of other processors and of foreign tasks are skipped.
///
/// ```
/// # use std::task::Waker;
/// fn wake_all(waiting: Vec<Waker>) {
///     phalanx_core::prefetch_wakers(&waiting);
///     waiting.into_iter().for_each(Waker::wake);
/// }
/// # wake_all(vec![Waker::noop().clone()]);
/// ```
pub fn prefetch_wakers<'a>(wakers: impl IntoIterator<Item = &'a Waker>) {
    processor::try_current(|processor| {
        for waker in wakers {
            let id = waker::id_of(waker, processor);
            if let Some(slot) = id.and_then(|id| processor.slab().get(id.index())) {
                slot.start_load(0);
            }
        }
    });
}

impl Slot {
    /// Starts to load one line of this slot; line 0 is the header's.
    #[inline(always)]
    fn start_load(self, line: usize) {
        start_load(
            self.payload::<u8>()
                .wrapping_sub(size_of::<Header>())
                .wrapping_add(line * CACHE_LINE_BYTES),
        );
    }
}

impl Processor {
    /// Whether the live operations exceed half of the cache; the other half is for other data.
    #[inline]
    pub(crate) fn exceeds_cache(&self) -> bool {
        self.slab().bytes() > self.program().settings.cache() / 2
    }

    /// Starts to load the future of the operation that will be popped next from a queue.
    #[inline(never)]
    pub(crate) fn load_next(&self, next: Option<Slot>) {
        // An unstarted operation was written recently.
        let Some(slot) = next.filter(|slot| slot.state.get() == SlotState::Started) else { return };
        let payload = slot.vtable.get().sizes.payload as usize;
        (1..=payload.div_ceil(CACHE_LINE_BYTES).min(MAX_PREFETCHED_LINES))
            .for_each(|line| slot.start_load(line));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;
    use crate::world::IdleWorld;
    use crate::{Graph, oneshot};

    /// Resumes many operations of several sizes again and again, in either order; each continues where it
    /// was.
    #[test]
    fn operations_that_exceed_the_cache_continue_correctly() {
        const OPERATIONS: usize = 500;
        let mut graph = Graph::new();
        graph.cache_bytes(64 * 1024);
        let stages = [graph.shared("stack", ()), graph.stage("line").shared(())];
        let processor = graph.build(1).remove(0).build(Box::new(|| ()));
        let sum = Rc::new(Cell::new(0));
        let mut rounds = vec![Vec::new(), Vec::new(), Vec::new()];
        processor.enter(|| {
            assert!(!processor.exceeds_cache());
            for n in 0..OPERATIONS {
                let (sum, ballast) = (sum.clone(), [n as u8; 1000]);
                let receivers: Vec<_> = rounds
                    .iter_mut()
                    .map(|round| {
                        let (sender, receiver) = oneshot::local();
                        round.push(sender);
                        receiver
                    })
                    .collect();
                let add = async move {
                    for receiver in receivers {
                        let value = receiver.await.unwrap_or(0);
                        sum.set(sum.get() + value);
                    }
                };
                let stage = stages[n / 2 % 2];
                match n % 2 {
                    0 => stage.dispatch(move |_| add),
                    _ => stage.dispatch(move |_| async move {
                        add.await;
                        assert_eq!(ballast, [n as u8; 1000]);
                    }),
                }
                .unwrap();
            }
            for round in rounds {
                while processor.turn(&IdleWorld).ran > 0 {}
                assert!(processor.exceeds_cache());
                round.into_iter().for_each(|sender| sender.send(1));
            }
            while processor.turn(&IdleWorld).ran > 0 {}
        });
        assert_eq!((sum.get(), processor.live()), (3 * OPERATIONS, 0));
    }

    #[test]
    fn wakers_of_others_are_skipped() {
        prefetch_wakers([Waker::noop()]);
        let processor = Graph::new().build(1).remove(0).build(Box::new(|| ()));
        processor.enter(|| prefetch_wakers([Waker::noop()]));
    }
}
