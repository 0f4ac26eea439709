//! Loads ahead of those who need them: an operation that is resumed finds its closure in the cache.
//!
//! Where few operations are alive the cache has them all, and there is nothing to do. Where there are
//! many, each that is resumed was last touched some thousand others ago, and what it touches first waits for
//! memory, line after line. But who comes next is known: a cohort is a list. So while one runs, the
//! lines of the next are loaded; and whoever wakes many first [has their headers loaded](prefetch_wakers) together.
//!
//! Unlike [`prefetch`](crate::processor::interleave), which an operation awaits for what only it knows to come, this is done to all
//! of them and suspends none.

use std::task::Waker;

use crate::memory::prefetch::start_load;
use crate::operation::slot::{Header, Slot};
use crate::operation::state::SlotState;
use crate::processor;
use crate::processor::processor::Processor;
use crate::processor::waker;

const CACHE_LINE_BYTES: usize = 64;
/// No more lines are loaded of one operation: what a processor has under way at a time is a few dozen.
const MAX_PREFETCHED_LINES: usize = 40;

/// Starts to load what is touched first when the operations that `wakers` name are woken. For whoever is about
/// to wake many: so their loads are under way at the same time. Wakers of others are passed over.
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
            let name = waker::named(waker, processor);
            if let Some(slot) = name.and_then(|name| processor.slab().get(name.index())) {
                slot.start_load(0);
            }
        }
    });
}

impl Slot {
    /// Starts to load its line of this number; the first is its header's.
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
    /// Whether more is alive here than the cache keeps: half of it, as others need some too.
    #[inline]
    pub(crate) fn exceeds_cache(&self) -> bool {
        self.slab().bytes() > self.program().cohorts.cache() / 2
    }

    /// Starts to load the closure that is taken next from a queue.
    #[inline(never)]
    pub(crate) fn load_next(&self, next: Option<Slot>) {
        // What has not started was written a moment ago.
        let Some(slot) = next.filter(|slot| slot.state.get() == SlotState::Started) else { return };
        let payload = slot.vtable.get().sizes.payload();
        (1..=payload.div_ceil(CACHE_LINE_BYTES).min(MAX_PREFETCHED_LINES))
            .for_each(|line| slot.start_load(line));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;
    use crate::{Graph, World, oneshot};

    struct Still;

    impl World for Still {
        fn now(&self) -> u64 {
            0
        }
        fn reap(&self) -> bool {
            false
        }
        fn submit(&self) {}
        fn park(&self, _: Option<u64>) {}
    }

    /// Many of several sizes, resumed again and again in either order: each goes on where it was.
    #[test]
    fn operations_beyond_the_cache_go_on_as_ever() {
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
                let events: Vec<_> = rounds
                    .iter_mut()
                    .map(|round| {
                        let (trigger, event) = oneshot::local();
                        round.push(trigger);
                        event
                    })
                    .collect();
                let add = async move {
                    for event in events {
                        let more = event.await.unwrap_or(0);
                        sum.set(sum.get() + more);
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
                while processor.turn(&Still).ran > 0 {}
                assert!(processor.exceeds_cache());
                round.into_iter().for_each(|trigger| trigger.send(1));
            }
            while processor.turn(&Still).ran > 0 {}
        });
        assert_eq!((sum.get(), processor.live()), (3 * OPERATIONS, 0));
    }

    #[test]
    fn wakers_of_others_are_passed_over() {
        prefetch_wakers([Waker::noop()]);
        let processor = Graph::new().build(1).remove(0).build(Box::new(|| ()));
        processor.enter(|| prefetch_wakers([Waker::noop()]));
    }
}
