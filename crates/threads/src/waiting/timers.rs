//! Deadlines of parked threads: a binary heap, earliest first.
//!
//! # Safety
//!
//! The heap and the positions in the threads are accessed under the lock. A thread removes itself before it continues
//! past its park, so entries live.

use core::ptr::null_mut;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::schedule::notify::unpark;
use crate::schedule::wake;
use crate::system::lock::Lock;
use crate::thread::Thread;
use crate::thread::masked::Masked;

/// Maximum number of threads with deadlines: a common limit of the kernel on threads.
const MAX_TIMERS: usize = 1 << 16;

struct Heap {
    length: usize,
    entries: [*mut Thread; MAX_TIMERS],
}

static HEAP: Lock<Heap> = Lock::new(Heap { length: 0, entries: [null_mut(); MAX_TIMERS] });
/// The earliest deadline; `u64::MAX` if there is none.
static EARLIEST: AtomicU64 = AtomicU64::new(u64::MAX);

impl Heap {
    fn deadline(&self, at: usize) -> u64 {
        unsafe { (*self.entries[at]).deadline.load(Ordering::Relaxed) }
    }

    fn place(&mut self, at: usize, thread: *mut Thread) {
        self.entries[at] = thread;
        unsafe { (*thread).timer.set(at + 1) };
    }

    fn swap(&mut self, one: usize, other: usize) {
        let (a, b) = (self.entries[one], self.entries[other]);
        self.place(one, b);
        self.place(other, a);
    }

    fn rise(&mut self, mut at: usize) {
        while at > 0 && self.deadline(at) < self.deadline((at - 1) / 2) {
            self.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
    }

    fn sink(&mut self, mut at: usize) {
        loop {
            let children = 2 * at + 1..(2 * at + 3).min(self.length);
            let Some(earliest) = children.min_by_key(|&child| self.deadline(child)) else { return };
            if self.deadline(at) <= self.deadline(earliest) {
                return;
            }
            self.swap(at, earliest);
            at = earliest;
        }
    }

    fn remove(&mut self, at: usize) {
        unsafe { (*self.entries[at]).timer.set(0) };
        self.length -= 1;
        if at != self.length {
            self.place(at, self.entries[self.length]);
            self.rise(at);
            self.sink(at);
        }
        self.publish();
    }

    fn publish(&self) {
        let earliest = if self.length == 0 { u64::MAX } else { self.deadline(0) };
        EARLIEST.store(earliest, Ordering::SeqCst);
    }
}

/// Adds a thread that is about to park. If the heap is full, the thread returns at once.
pub(crate) fn add(thread: &Thread, deadline: u64) {
    let _masked = Masked::new();
    let mut heap = HEAP.lock();
    // A handler of a signal has jumped out of the wait for an earlier deadline.
    if let Some(at) = thread.timer.get().checked_sub(1) {
        heap.remove(at);
    }
    if heap.length == MAX_TIMERS {
        drop(heap);
        return unpark(thread);
    }
    thread.deadline.store(deadline, Ordering::Relaxed);
    let at = heap.length;
    heap.length += 1;
    heap.place(at, thread.as_ptr());
    heap.rise(at);
    heap.publish();
    let is_earliest = thread.timer.get() == 1;
    drop(heap);
    if is_earliest {
        wake::interrupt();
    }
}

/// Removes a thread, if its deadline has not passed.
pub(crate) fn remove(thread: &Thread) {
    let _masked = Masked::new();
    let mut heap = HEAP.lock();
    if let Some(at) = thread.timer.get().checked_sub(1) {
        heap.remove(at);
    }
}

/// The earliest deadline; `u64::MAX` if there is none.
pub(crate) fn earliest() -> u64 {
    EARLIEST.load(Ordering::SeqCst)
}

/// Notifies the threads whose deadlines have passed.
pub(crate) fn expire() {
    while earliest() != u64::MAX && earliest() <= crate::system::sys::now() {
        let mut heap = HEAP.lock();
        if heap.length == 0 || heap.deadline(0) > crate::system::sys::now() {
            return;
        }
        let thread = heap.entries[0];
        heap.remove(0);
        // The thread removes itself under the lock before it ends, so it lives here.
        unpark(unsafe { &*thread });
    }
}

/// Empties the heap in a child process.
pub(crate) unsafe fn reset() {
    unsafe { HEAP.reset_with(|heap| heap.length = 0) };
    EARLIEST.store(u64::MAX, Ordering::SeqCst);
}
