//! The local queue of one stage on one processor.
//!
//! It is of one thread, so it needs no synchronisation (tr2001 §5.1.1). A cohort takes the oldest
//! operations first, so that they start in the order of their invocation. For a stage that is last
//! in, first out it takes the newest, whose data is most likely still in the cache. A pure stack
//! would let the oldest starve, so [`StarvationGuard`] turns single cohorts around: when the last cohort left
//! something behind, or when the oldest has waited too long, the next cohort takes the oldest first.
//!
//! # Safety
//! The ring holds plain copies at the positions from `oldest` up to `end`, taken modulo the power
//! of two that is its length; only these are read. A queue is of one thread, and no call below runs
//! foreign code while the ring is borrowed.

use std::cell::{Cell, UnsafeCell};
use std::mem::MaybeUninit;

/// From which end a cohort takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PopOrder {
    OldestFirst,
    NewestFirst,
}

/// Capacity for this many operations at first; doubled when it is full.
const INITIAL_CAPACITY: usize = 64;

/// One stage's runnable operations on one processor.
pub(crate) struct StageQueue<T> {
    ring: UnsafeCell<Box<[MaybeUninit<T>]>>,
    oldest: Cell<usize>,
    end: Cell<usize>,
    /// The lesser of the ring's length and the bound.
    mark: Cell<usize>,
    bound: usize,
}

impl<T: Copy> StageQueue<T> {
    /// An empty queue that has room for new operations up to `bound`.
    pub(crate) fn new(bound: usize) -> Self {
        Self {
            ring: UnsafeCell::new(Box::new_uninit_slice(INITIAL_CAPACITY)),
            oldest: Cell::new(0),
            end: Cell::new(0),
            mark: Cell::new(INITIAL_CAPACITY.min(bound)),
            bound,
        }
    }

    /// Makes room for one more; false at the bound.
    #[inline(always)]
    pub(crate) fn make_room(&self) -> bool {
        self.len() < self.mark.get() || self.at_mark()
    }

    /// Whether there is room below the bound.
    pub(crate) fn has_room(&self) -> bool {
        self.len() < self.bound
    }

    #[cold]
    #[inline(never)]
    fn at_mark(&self) -> bool {
        if self.len() >= self.bound {
            return false;
        }
        if self.len() == self.capacity() {
            self.grow();
        }
        true
    }

    /// The cell at `position`.
    #[inline(always)]
    fn cell(&self, position: usize) -> *mut MaybeUninit<T> {
        // SAFETY: no other borrow is alive (top of the file); the masked position is inside.
        unsafe {
            let ring = &mut *self.ring.get();
            ring.as_mut_ptr().add(position & (ring.len() - 1))
        }
    }

    #[inline(always)]
    fn capacity(&self) -> usize {
        // SAFETY: no other borrow is alive (top of the file).
        unsafe { (&*self.ring.get()).len() }
    }

    #[cold]
    fn grow(&self) {
        let mut larger = Box::new_uninit_slice(2 * self.capacity());
        for n in 0..self.len() {
            // SAFETY: the position is inside (as in `cell`).
            larger[n] = unsafe { *self.cell(self.oldest.get().wrapping_add(n)) };
        }
        self.end.set(self.len());
        self.oldest.set(0);
        self.mark.set(larger.len().min(self.bound));
        // SAFETY: no other borrow is alive (top of the file).
        unsafe { *self.ring.get() = larger };
    }

    /// Appends at the newest end, whatever the bound: what is pushed so was inside already.
    #[inline(always)]
    pub(crate) fn push(&self, item: T) {
        if self.len() == self.capacity() {
            self.grow();
        }
        // SAFETY: the ring is not full.
        unsafe { self.append(item) }
    }

    /// Appends at the newest end, where room has been made.
    ///
    /// # Safety
    /// [`make_room`](Self::make_room) has said yes, and nothing was pushed since.
    #[inline(always)]
    pub(crate) unsafe fn append(&self, item: T) {
        debug_assert!(self.len() < self.capacity());
        let end = self.end.get();
        // SAFETY: a cell that holds nothing, since the ring is not full.
        unsafe { self.cell(end).write(MaybeUninit::new(item)) };
        self.end.set(end.wrapping_add(1));
    }

    /// Puts `item` at the oldest end, where a stack takes it last.
    pub(crate) fn push_behind(&self, item: T) {
        if self.len() == self.capacity() {
            self.grow();
        }
        let position = self.oldest.get().wrapping_sub(1);
        // SAFETY: a cell that holds nothing, since the ring is not full.
        unsafe { self.cell(position).write(MaybeUninit::new(item)) };
        self.oldest.set(position);
    }

    #[inline(always)]
    pub(crate) fn pop(&self, order: PopOrder) -> Option<T> {
        let (oldest, end) = (self.oldest.get(), self.end.get());
        if oldest == end {
            return None;
        }
        let position = match order {
            PopOrder::OldestFirst => {
                self.oldest.set(oldest.wrapping_add(1));
                oldest
            }
            PopOrder::NewestFirst => {
                self.end.set(end.wrapping_sub(1));
                end.wrapping_sub(1)
            }
        };
        // SAFETY: a position between `oldest` and `end` is filled.
        Some(unsafe { (*self.cell(position)).assume_init() })
    }

    /// What would be taken next.
    #[inline(always)]
    pub(crate) fn peek(&self, order: PopOrder) -> Option<T> {
        let (oldest, end) = (self.oldest.get(), self.end.get());
        let position = match order {
            PopOrder::NewestFirst => end.wrapping_sub(1),
            PopOrder::OldestFirst => oldest,
        };
        // SAFETY: as in `pop`.
        (oldest != end).then(|| unsafe { (*self.cell(position)).assume_init() })
    }

    /// Takes `item` out again, if it was the last to be queued.
    #[inline(always)]
    pub(crate) fn pop_newest(&self, item: T) -> bool
    where
        T: PartialEq,
    {
        let (oldest, end) = (self.oldest.get(), self.end.get());
        let newest = end.wrapping_sub(1);
        // SAFETY: as in `pop`.
        let found = oldest != end && unsafe { (*self.cell(newest)).assume_init() } == item;
        if found {
            self.end.set(newest);
        }
        found
    }

    /// Takes `item` out again, if nothing else is queued.
    #[inline(always)]
    pub(crate) fn pop_alone(&self, item: T) -> bool
    where
        T: PartialEq,
    {
        let oldest = self.oldest.get();
        let alone = self.end.get() == oldest.wrapping_add(1)
            // SAFETY: as in `pop`.
            && unsafe { (*self.cell(oldest)).assume_init() } == item;
        if alone {
            self.end.set(oldest);
        }
        alone
    }

    pub(crate) fn oldest(&self) -> Option<T> {
        let oldest = self.oldest.get();
        // SAFETY: as in `pop`.
        (oldest != self.end.get()).then(|| unsafe { (*self.cell(oldest)).assume_init() })
    }

    /// The `n`th from the oldest.
    pub(crate) fn get(&self, n: usize) -> Option<T> {
        // SAFETY: as in `pop`.
        (n < self.len())
            .then(|| unsafe { (*self.cell(self.oldest.get().wrapping_add(n))).assume_init() })
    }

    /// Has the `a`th and the `b`th from the oldest change places.
    pub(crate) fn swap(&self, a: usize, b: usize) {
        assert!(a < self.len() && b < self.len(), "both are queued");
        let oldest = self.oldest.get();
        let (a, b) = (self.cell(oldest.wrapping_add(a)), self.cell(oldest.wrapping_add(b)));
        // SAFETY: two cells between `oldest` and `end`, perhaps the same.
        unsafe { std::ptr::swap(a, b) };
    }

    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.end.get().wrapping_sub(self.oldest.get())
    }
}

/// An operation that is out of a full queue for a moment. It goes back when this is dropped, also by
/// a panic.
pub(crate) struct Aside<'a, T: Copy> {
    queue: &'a StageQueue<T>,
    item: Option<T>,
}

impl<'a, T: Copy> Aside<'a, T> {
    /// Takes the newest operation out, if there is no room without that.
    pub(crate) fn make_room(queue: &'a StageQueue<T>) -> Self {
        let item = if queue.has_room() { None } else { queue.pop(PopOrder::NewestFirst) };
        Self { queue, item }
    }
}

impl<T: Copy> Drop for Aside<'_, T> {
    fn drop(&mut self) {
        self.item.into_iter().for_each(|item| self.queue.push(item));
    }
}

/// What keeps the stack from starving its bottom.
#[derive(Default)]
pub(crate) struct StarvationGuard {
    left_behind: Cell<bool>,
}

impl StarvationGuard {
    /// Nanoseconds that the oldest may wait before a cohort is taken from its end.
    pub(crate) const MAX_AGE: u64 = 1_000_000;

    /// The order of the next cohort, whose oldest operation was queued at `oldest`.
    pub(crate) fn order(&self, now: u64, oldest: Option<u64>) -> PopOrder {
        let aged = oldest.is_some_and(|queued| now.saturating_sub(queued) > Self::MAX_AGE);
        if self.left_behind.get() || aged { PopOrder::OldestFirst } else { PopOrder::NewestFirst }
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
            5 => Just(Step::Push),
            1 => Just(Step::PushBehind),
            3 => any::<bool>().prop_map(Step::Pop)
        ]
    }

    proptest! {
        /// Against a plain list: nothing lost, nothing twice, each end in its order.
        #[test]
        fn behaves_like_a_list(steps in proptest::collection::vec(step(), 0..600)) {
            let queue = StageQueue::new(usize::MAX);
            let mut model: Vec<usize> = Vec::new();
            for (n, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Push => { queue.push(n); model.push(n); }
                    Step::PushBehind => { queue.push_behind(n); model.insert(0, n); }
                    Step::Pop(true) => {
                        prop_assert_eq!(queue.peek(PopOrder::NewestFirst), model.last().copied());
                        prop_assert_eq!(queue.pop(PopOrder::NewestFirst), model.pop());
                    }
                    Step::Pop(false) => {
                        prop_assert_eq!(queue.peek(PopOrder::OldestFirst), model.first().copied());
                        let expected = (!model.is_empty()).then(|| model.remove(0));
                        prop_assert_eq!(queue.oldest(), expected);
                        prop_assert_eq!(queue.pop(PopOrder::OldestFirst), expected);
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
