//! The local queue of one stage on one processor.
//!
//! One thread uses the queue, so it needs no synchronisation (tr2001 §5.1.1). By default a cohort takes the oldest
//! operations first, in the order of their invocation. For a last-in, first-out stage, it takes the newest operations
//! first, whose data is most likely still in the cache. A pure stack would starve the oldest operations. The
//! [`StarvationGuard`](crate::stage::starvation_guard::StarvationGuard) therefore reverses single cohorts: if the last
//! cohort left operations behind, or the oldest has waited too long, the next cohort takes the oldest first.
//!
//! # Safety
//! The positions from `oldest` up to `end`, modulo the ring's length, contain initialised copies; no other positions
//! are read. The length is a power of two. Only one thread uses a queue, and no method runs foreign code while it
//! borrows the ring.

use std::cell::{Cell, UnsafeCell};
use std::mem::MaybeUninit;

/// The end of the queue from which a cohort takes operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PopOrder {
    OldestFirst,
    NewestFirst,
}

/// The initial capacity, in operations. It is doubled whenever the queue is full.
const INITIAL_CAPACITY: usize = 64;

/// One stage's runnable operations on one processor.
pub(crate) struct StageQueue<T> {
    ring: UnsafeCell<Box<[MaybeUninit<T>]>>,
    oldest: Cell<usize>,
    end: Cell<usize>,
    /// The smaller of the ring's length and the bound.
    mark: Cell<usize>,
    bound: usize,
}

impl<T: Copy> StageQueue<T> {
    /// Creates an empty queue that accepts new operations up to `bound`.
    pub(crate) fn new(bound: usize) -> Self {
        Self {
            ring: UnsafeCell::new(Box::new_uninit_slice(INITIAL_CAPACITY)),
            oldest: Cell::new(0),
            end: Cell::new(0),
            mark: Cell::new(INITIAL_CAPACITY.min(bound)),
            bound,
        }
    }

    /// Makes room for one more operation. False at the bound.
    #[inline(always)]
    pub(crate) fn make_room(&self) -> bool {
        self.len() < self.mark.get() || self.at_mark()
    }

    /// Whether the queue is below its bound.
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
        // SAFETY: no other borrow is alive (top of the file), and the masked position is in bounds.
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
            // SAFETY: the masked position is in bounds, as in `cell`.
            larger[n] = unsafe { *self.cell(self.oldest.get().wrapping_add(n)) };
        }
        self.end.set(self.len());
        self.oldest.set(0);
        self.mark.set(larger.len().min(self.bound));
        // SAFETY: no other borrow is alive (top of the file).
        unsafe { *self.ring.get() = larger };
    }

    /// Appends at the newest end regardless of the bound, for operations that have already been admitted.
    #[inline(always)]
    pub(crate) fn push(&self, item: T) {
        if self.len() == self.capacity() {
            self.push_to_full(item)
        } else {
            // SAFETY: the ring is not full.
            unsafe { self.append(item) }
        }
    }

    #[cold]
    #[inline(never)]
    fn push_to_full(&self, item: T) {
        self.grow();
        // SAFETY: the ring has grown.
        unsafe { self.append(item) }
    }

    /// Appends at the newest end, where room has been made.
    ///
    /// # Safety
    /// [`make_room`](Self::make_room) has returned true, and nothing was pushed since.
    #[inline(always)]
    pub(crate) unsafe fn append(&self, item: T) {
        debug_assert!(self.len() < self.capacity());
        let end = self.end.get();
        // SAFETY: an empty cell, since the ring is not full.
        unsafe { self.cell(end).write(MaybeUninit::new(item)) };
        self.end.set(end.wrapping_add(1));
    }

    /// Inserts `item` at the oldest end, from where a last-in, first-out stage takes it last.
    pub(crate) fn push_behind(&self, item: T) {
        if self.len() == self.capacity() {
            self.grow();
        }
        let position = self.oldest.get().wrapping_sub(1);
        // SAFETY: an empty cell, since the ring is not full.
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

    /// The operation that `pop` would return next.
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

    /// Removes `item` if it is the newest operation.
    #[inline(always)]
    pub(crate) fn pop_newest(&self, item: T) -> bool
    where
        T: PartialEq,
    {
        let (oldest, end) = (self.oldest.get(), self.end.get());
        let newest = end.wrapping_sub(1);
        // SAFETY: as in `pop`.
        let is_newest = oldest != end && unsafe { (*self.cell(newest)).assume_init() } == item;
        if is_newest {
            self.end.set(newest);
        }
        is_newest
    }

    /// Removes `item` if it is the only operation.
    #[inline(always)]
    pub(crate) fn pop_alone(&self, item: T) -> bool
    where
        T: PartialEq,
    {
        let oldest = self.oldest.get();
        let is_last = self.end.get() == oldest.wrapping_add(1)
            // SAFETY: as in `pop`.
            && unsafe { (*self.cell(oldest)).assume_init() } == item;
        if is_last {
            self.end.set(oldest);
        }
        is_last
    }

    pub(crate) fn oldest(&self) -> Option<T> {
        self.peek(PopOrder::OldestFirst)
    }

    /// The `n`th operation from the oldest.
    pub(crate) fn get(&self, n: usize) -> Option<T> {
        // SAFETY: as in `pop`.
        (n < self.len())
            .then(|| unsafe { (*self.cell(self.oldest.get().wrapping_add(n))).assume_init() })
    }

    /// Swaps the `a`th and the `b`th operation from the oldest.
    pub(crate) fn swap(&self, a: usize, b: usize) {
        assert!(a < self.len() && b < self.len(), "both are queued");
        let oldest = self.oldest.get();
        let (a, b) = (oldest.wrapping_add(a), oldest.wrapping_add(b));
        // SAFETY: both cells are between `oldest` and `end`, and may be the same. Each access borrows the ring again,
        // which invalidates earlier pointers into it.
        unsafe {
            let item = *self.cell(a);
            *self.cell(a) = *self.cell(b);
            *self.cell(b) = item;
        }
    }

    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.end.get().wrapping_sub(self.oldest.get())
    }
}

/// An operation that was temporarily taken out of a full queue. Dropping this puts it back, even during a panic.
pub(crate) struct Aside<'a, T: Copy> {
    queue: &'a StageQueue<T>,
    item: Option<T>,
}

impl<'a, T: Copy> Aside<'a, T> {
    /// Takes out the newest operation if the queue is full.
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
        /// Behaves like a plain list: loses nothing, duplicates nothing, keeps the order at either end.
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
    }
}
