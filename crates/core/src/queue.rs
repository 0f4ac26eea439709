//! The local queue of one stage on one processor: a stack for locality, with an end for fairness.
//!
//! Operations invoked on this processor are taken newest first, because their data is still in the
//! cache, and without any synchronisation (tr2001 §5.1.1). A pure stack would let the oldest starve,
//! so [`Cap`] turns single cohorts around: when the last cohort left something behind, or when the
//! oldest has waited too long, the next cohort takes the oldest first.
//!
//! # Safety
//! The items are plain copies, so no call below runs foreign code while the list is borrowed; and a
//! queue is of one thread. So no two borrows ever meet.

use std::cell::{Cell, UnsafeCell};
use std::collections::VecDeque;

/// From which end a cohort takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    NewestFirst,
    OldestFirst,
}

/// One stage's runnable operations on one processor.
pub(crate) struct StageQueue<T>(UnsafeCell<VecDeque<T>>);

impl<T: Copy> StageQueue<T> {
    pub(crate) fn new() -> Self {
        Self(UnsafeCell::new(VecDeque::with_capacity(64)))
    }

    #[inline(always)]
    #[allow(clippy::mut_from_ref, reason = "the only borrow at a time, see the top of the file")]
    fn items(&self) -> &mut VecDeque<T> {
        // SAFETY: no other borrow is alive (top of the file).
        unsafe { &mut *self.0.get() }
    }

    /// Appends at the newest end.
    #[inline]
    pub(crate) fn push(&self, item: T) {
        self.items().push_back(item);
    }

    /// Puts `item` where it is taken last in the usual order: it yields to everything else here.
    pub(crate) fn push_behind(&self, item: T) {
        self.items().push_front(item);
    }

    #[inline]
    pub(crate) fn pop(&self, order: Order) -> Option<T> {
        match order {
            Order::NewestFirst => self.items().pop_back(),
            Order::OldestFirst => self.items().pop_front(),
        }
    }

    pub(crate) fn oldest(&self) -> Option<T> {
        self.items().front().copied()
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.items().len()
    }
}

/// What keeps the stack from starving its bottom.
#[derive(Default)]
pub(crate) struct Cap {
    left_behind: Cell<bool>,
}

impl Cap {
    /// Nanoseconds that the oldest may wait before a cohort is taken from its end.
    pub(crate) const AGE: u64 = 1_000_000;

    /// The order of the next cohort, whose oldest operation was queued at `oldest`.
    pub(crate) fn order(&self, now: u64, oldest: Option<u64>) -> Order {
        let aged = oldest.is_some_and(|queued| now.saturating_sub(queued) > Self::AGE);
        if self.left_behind.get() || aged { Order::OldestFirst } else { Order::NewestFirst }
    }

    /// A cohort has ended with `left` operations still queued.
    pub(crate) fn cohort_ended(&self, left: usize) {
        self.left_behind.set(left > 0);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Push,
        PushBehind,
        Pop(bool),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => Just(Step::Push),
            1 => Just(Step::PushBehind),
            3 => any::<bool>().prop_map(Step::Pop)
        ]
    }

    proptest! {
        /// Against a plain list: nothing lost, nothing twice, each end in its order.
        #[test]
        fn behaves_like_a_list(steps in proptest::collection::vec(step(), 0..300)) {
            let queue = StageQueue::new();
            let mut model: Vec<usize> = Vec::new();
            for (n, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Push => { queue.push(n); model.push(n); }
                    Step::PushBehind => { queue.push_behind(n); model.insert(0, n); }
                    Step::Pop(true) => prop_assert_eq!(queue.pop(Order::NewestFirst), model.pop()),
                    Step::Pop(false) => {
                        let expected = (!model.is_empty()).then(|| model.remove(0));
                        prop_assert_eq!(queue.oldest(), expected);
                        prop_assert_eq!(queue.pop(Order::OldestFirst), expected);
                    }
                }
                prop_assert_eq!(queue.len(), model.len());
            }
        }

        /// However many arrive in each round, no operation waits for more cohorts than it takes to
        /// clear what was there when it came, twice over.
        #[test]
        fn the_oldest_never_starves(arrivals in proptest::collection::vec(0usize..12, 1..60)) {
            const COHORT: usize = 8;
            let (queue, cap) = (StageQueue::new(), Cap::default());
            let mut next = 0;
            let mut bound = std::collections::HashMap::new();
            for (round, arriving) in arrivals.iter().chain(std::iter::repeat_n(&0, 200)).enumerate() {
                for _ in 0..*arriving {
                    queue.push(next);
                    bound.insert(next, round + 2 * (queue.len().div_ceil(COHORT) + 1));
                    next += 1;
                }
                let order = cap.order(0, None);
                for _ in 0..COHORT {
                    let Some(item) = queue.pop(order) else { break };
                    let latest = bound.remove(&item).expect("run once");
                    prop_assert!(round <= latest, "{item} ran in round {round}, due by {latest}");
                }
                cap.cohort_ended(queue.len());
            }
            prop_assert!(bound.is_empty(), "lost: {bound:?}");
        }
    }

    #[test]
    fn age_turns_a_cohort_around() {
        let cap = Cap::default();
        assert_eq!(cap.order(Cap::AGE, Some(0)), Order::NewestFirst);
        assert_eq!(cap.order(Cap::AGE + 1, Some(0)), Order::OldestFirst);
    }
}
