//! The choice of the end from which a last-in, first-out stage takes operations.

use std::cell::Cell;

use crate::queue::local::PopOrder;

/// Starvation guard: keeps the oldest operations of a last-in, first-out queue from starving.
#[derive(Default)]
pub(crate) struct StarvationGuard {
    has_backlog: Cell<bool>,
}

impl StarvationGuard {
    /// If the oldest operation has waited for longer than this, in nanoseconds, the cohort takes the oldest first.
    pub(crate) const MAX_AGE: u64 = 1_000_000;

    /// The order of the next cohort. `oldest` is the time at which the oldest operation was queued.
    pub(crate) fn order(&self, now: u64, oldest: Option<u64>) -> PopOrder {
        let is_aged = oldest.is_some_and(|queued| now.saturating_sub(queued) > Self::MAX_AGE);
        if self.has_backlog.get() || is_aged {
            PopOrder::OldestFirst
        } else {
            PopOrder::NewestFirst
        }
    }

    /// Records that a cohort ended with `remaining` operations still queued.
    pub(crate) fn cohort_ended(&self, remaining: usize) {
        self.has_backlog.set(remaining > 0);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::queue::local::StageQueue;
    use proptest::prelude::*;

    proptest! {
        /// At any arrival rate, no operation waits for more than twice the cohorts needed to clear the
        /// queue it found.
        #[test]
        fn the_oldest_never_starves(arrivals in proptest::collection::vec(0usize..12, 1..60)) {
            const COHORT: usize = 8;
            let (queue, guard) = (StageQueue::new(usize::MAX), StarvationGuard::default());
            let mut next = 0;
            let mut bound = std::collections::HashMap::new();
            for (round, arriving) in arrivals.iter().chain(std::iter::repeat_n(&0, 200)).enumerate() {
                for _ in 0..*arriving {
                    queue.push(next);
                    bound.insert(next, round + 2 * (queue.len().div_ceil(COHORT) + 1));
                    next += 1;
                }
                let order = guard.order(0, None);
                for _ in 0..COHORT {
                    let Some(item) = queue.pop(order) else { break };
                    let latest = bound.remove(&item).expect("run once");
                    prop_assert!(round <= latest, "{item} ran in round {round}, due by {latest}");
                }
                guard.cohort_ended(queue.len());
            }
            prop_assert!(bound.is_empty(), "lost: {bound:?}");
        }
    }

    #[test]
    fn age_turns_a_cohort_around() {
        let guard = StarvationGuard::default();
        assert_eq!(guard.order(StarvationGuard::MAX_AGE, Some(0)), PopOrder::NewestFirst);
        assert_eq!(guard.order(StarvationGuard::MAX_AGE + 1, Some(0)), PopOrder::OldestFirst);
    }
}
