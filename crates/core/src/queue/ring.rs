//! A bounded multi-producer, multi-consumer queue for messages between processors.
//!
//! Usually one processor pops from each ring, but the ring does not depend on this: concurrent consumers are safe, only
//! slower. This costs one compare-and-exchange per value, which is little for a value that crosses processors, and
//! `pop` can be a safe function.
//!
//! # Safety
//! The ring is an array of cells, each with a sequence number (Vyukov's bounded queue). A producer owns the cell at
//! `tail` once it has advanced `tail` past it, which it does only if the cell's sequence marks the cell as free. It
//! hands the cell over with a release store of the sequence. A consumer owns the cell at `head` in the same way: it
//! loads the sequence with acquire ordering, takes the value and releases the cell to the producers of the next lap. No
//! two threads ever access one value at a time. `loom.rs` checks the scheme with a ring of two cells.

use std::mem::MaybeUninit;

use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::sync::{AtomicUsize, UnsafeCell};

struct Cell<T> {
    /// Equal to a position if the cell is free for the producer of that position, and to the position plus one if the
    /// cell is filled.
    sequence: AtomicUsize,
    value: UnsafeCell<MaybeUninit<T>>,
}

/// A bounded queue between threads. A full ring rejects a value; the sender keeps it and retries later, so nothing is
/// lost and memory is bounded.
pub(crate) struct Ring<T> {
    cells: Box<[Cell<T>]>,
    mask: usize,
    tail: Index,
    head: Index,
}

/// The position of one end of the ring, alone in its cache line to avoid false sharing between producers and consumers.
#[repr(align(64))]
struct Index(AtomicUsize);

// SAFETY: only the ownership of values crosses threads (top of the file), so `T: Send` is enough.
unsafe impl<T: Send> Send for Ring<T> {}
// SAFETY: as above. Any thread may push and pop through a `&Ring`.
unsafe impl<T: Send> Sync for Ring<T> {}

impl<T> Ring<T> {
    /// A ring of `capacity` values.
    ///
    /// # Panics
    /// If `capacity` is not a power of two of at least two.
    pub(crate) fn new(capacity: usize) -> Self {
        assert!(capacity.is_power_of_two() && capacity >= 2, "ring capacity {capacity}");
        let cells = (0..capacity)
            .map(|position| Cell {
                sequence: AtomicUsize::new(position),
                value: UnsafeCell::new(MaybeUninit::uninit()),
            })
            .collect();
        Self {
            cells,
            mask: capacity - 1,
            tail: Index(AtomicUsize::new(0)),
            head: Index(AtomicUsize::new(0)),
        }
    }

    /// Appends `value`, or returns it if the ring is full. Can be called from any thread.
    pub(crate) fn push(&self, value: T) -> Result<(), T> {
        let mut position = self.tail.0.load(Relaxed);
        loop {
            let cell = &self.cells[position & self.mask];
            let sequence = cell.sequence.load(Acquire);
            if sequence == position {
                let next = position.wrapping_add(1);
                match self.tail.0.compare_exchange_weak(position, next, Relaxed, Relaxed) {
                    Ok(_) => {
                        // SAFETY: the exchange gave this position to this thread, and the sequence showed that a
                        // consumer has released the cell.
                        cell.value.with_mut(|target| unsafe { (*target).write(value) });
                        cell.sequence.store(next, Release);
                        return Ok(());
                    }
                    Err(now) => position = now,
                }
            } else if (sequence.wrapping_sub(position) as isize) < 0 {
                return Err(value);
            } else {
                position = self.tail.0.load(Relaxed);
            }
        }
    }

    /// Takes the oldest value. Returns `None` if the ring is empty or a producer is still writing that value.
    pub(crate) fn pop(&self) -> Option<T> {
        let mut position = self.head.0.load(Relaxed);
        loop {
            let cell = &self.cells[position & self.mask];
            let next = position.wrapping_add(1);
            if cell.sequence.load(Acquire) != next {
                match self.head.0.load(Relaxed) {
                    same if same == position => return None,
                    now => position = now,
                }
                continue;
            }
            match self.head.0.compare_exchange(position, next, Relaxed, Relaxed) {
                Ok(_) => {
                    // SAFETY: the sequence showed that the cell is filled, and the exchange gave it to this thread.
                    let value =
                        cell.value.with_mut(|target| unsafe { (*target).assume_init_read() });
                    cell.sequence.store(position.wrapping_add(self.mask + 1), Release);
                    return Some(value);
                }
                Err(now) => position = now,
            }
        }
    }

    /// The approximate number of values; exact if no other thread uses the ring.
    pub(crate) fn len(&self) -> usize {
        let head = self.head.0.load(Relaxed);
        self.tail.0.load(Relaxed).wrapping_sub(head).min(self.mask + 1)
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        while self.pop().is_some() {}
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;
    use std::sync::Arc;

    #[test]
    fn refuses_when_full_and_drops_what_is_left() {
        let counted = Arc::new(());
        let ring = Ring::new(2);
        assert!(ring.push(counted.clone()).is_ok());
        assert!(ring.push(counted.clone()).is_ok());
        assert!(ring.push(counted.clone()).is_err());
        assert_eq!((ring.len(), Arc::strong_count(&counted)), (2, 3));
        drop(ring);
        assert_eq!(Arc::strong_count(&counted), 1);
    }

    proptest! {
        #[test]
        fn is_a_bounded_fifo(steps in proptest::collection::vec(any::<bool>(), 0..200)) {
            let ring = Ring::new(8);
            let mut model = VecDeque::new();
            for (n, push) in steps.into_iter().enumerate() {
                if push {
                    let fits = model.len() < 8;
                    prop_assert_eq!(ring.push(n).is_ok(), fits);
                    if fits { model.push_back(n); }
                } else {
                    prop_assert_eq!(ring.pop(), model.pop_front());
                }
                prop_assert_eq!(ring.len(), model.len());
            }
        }
    }

    #[test]
    fn nothing_is_lost_or_doubled_between_threads() {
        let ring = Arc::new(Ring::new(16));
        let producers: Vec<_> = (0..3u64)
            .map(|producer| {
                let ring = ring.clone();
                std::thread::spawn(move || {
                    for n in 0..20_000u64 {
                        let mut value = producer << 32 | n;
                        while let Err(back) = ring.push(value) {
                            value = back;
                            std::thread::yield_now();
                        }
                    }
                })
            })
            .collect();
        let mut next = [0u64; 3];
        while next.iter().sum::<u64>() < 60_000 {
            if let Some(value) = ring.pop() {
                let producer = (value >> 32) as usize;
                assert_eq!(value & 0xffff_ffff, next[producer], "order of one producer");
                next[producer] += 1;
            }
        }
        producers.into_iter().for_each(|thread| thread.join().unwrap());
    }
}
