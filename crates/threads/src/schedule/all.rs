//! The threads that may run on carriers.
//!
//! # Safety
//!
//! A thread is in the list from its start to its end, so its record lives. The neighbours are accessed under the lock.

use core::ptr::null_mut;

use crate::system::lock::Lock;
use crate::thread::Thread;
use crate::thread::masked::Masked;

/// The first thread of the list.
struct First(*mut Thread);

static FIRST: Lock<First> = Lock::new(First(null_mut()));

/// Adds the calling thread.
pub(crate) fn add(thread: &Thread) {
    let _masked = Masked::new();
    let mut first = FIRST.lock();
    thread.neighbours.set([null_mut(), first.0]);
    if let Some(next) = unsafe { first.0.as_ref() } {
        next.neighbours.set([thread.as_ptr(), next.neighbours.get()[1]]);
    }
    first.0 = thread.as_ptr();
}

/// Removes the calling thread, if it is in the list.
pub(crate) fn remove(thread: &Thread) {
    let _masked = Masked::new();
    let mut first = FIRST.lock();
    let [previous, next] = thread.neighbours.replace([null_mut(); 2]);
    match unsafe { previous.as_ref() } {
        Some(previous) => previous.neighbours.set([previous.neighbours.get()[0], next]),
        None if first.0 == thread.as_ptr() => first.0 = next,
        None => return,
    }
    if let Some(next) = unsafe { next.as_ref() } {
        next.neighbours.set([previous, next.neighbours.get()[1]]);
    }
}

/// Calls a function with each thread, under the lock.
pub(crate) fn for_each(mut function: impl FnMut(&Thread)) {
    let _masked = Masked::new();
    let first = FIRST.lock();
    let mut at = first.0;
    while let Some(thread) = unsafe { at.as_ref() } {
        at = thread.neighbours.get()[1];
        function(thread);
    }
}

/// Empties the list in a child process.
pub(crate) unsafe fn reset() {
    unsafe { FIRST.reset_with(|first| first.0 = null_mut()) };
}
