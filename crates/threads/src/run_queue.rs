//! The queue of runnable threads, in order of arrival.
//!
//! # Safety
//!
//! A thread is in the queue at most once, because only the change of its state from parked or running to runnable
//! inserts it. Queued threads do not run, so their records live.

use core::ptr::null_mut;
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::lock::Lock;
use crate::thread::Thread;

struct List {
    head: *mut Thread,
    tail: *mut Thread,
}

static LIST: Lock<List> = Lock::new(List { head: null_mut(), tail: null_mut() });
static LENGTH: AtomicUsize = AtomicUsize::new(0);
static TAKEN: AtomicUsize = AtomicUsize::new(0);

/// Appends a thread and returns the new length.
pub(crate) fn push(thread: &Thread) -> usize {
    let thread = thread.as_ptr();
    let mut list = LIST.lock();
    unsafe { (*thread).next.store(null_mut(), Ordering::Relaxed) };
    match list.tail.is_null() {
        true => list.head = thread,
        false => unsafe { (*list.tail).next.store(thread, Ordering::Relaxed) },
    }
    list.tail = thread;
    LENGTH.fetch_add(1, Ordering::SeqCst) + 1
}

/// Removes the oldest thread.
pub(crate) fn pop() -> Option<&'static Thread> {
    if len() == 0 {
        return None;
    }
    let mut list = LIST.lock();
    let thread = unsafe { list.head.as_ref()? };
    list.head = thread.next.load(Ordering::Relaxed);
    if list.head.is_null() {
        list.tail = null_mut();
    }
    LENGTH.fetch_sub(1, Ordering::SeqCst);
    TAKEN.fetch_add(1, Ordering::Relaxed);
    Some(thread)
}

pub(crate) fn len() -> usize {
    LENGTH.load(Ordering::SeqCst)
}

/// How many threads have been removed so far.
pub(crate) fn taken() -> usize {
    TAKEN.load(Ordering::Relaxed)
}

/// Empties the queue in a child process.
pub(crate) unsafe fn reset() {
    unsafe { LIST.reset_with(|list| *list = List { head: null_mut(), tail: null_mut() }) };
    LENGTH.store(0, Ordering::SeqCst);
}
