//! A lock for short critical sections of kernel threads, never held across a switch.
//!
//! # Safety
//!
//! The value is reached only through a guard, and one guard exists at a time.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU32, Ordering};

use crate::system::sys;

/// A mutual exclusion lock on a futex: 0 free, 1 held, 2 held with waiters.
pub(crate) struct Lock<T> {
    word: AtomicU32,
    value: UnsafeCell<T>,
}

unsafe impl<T> Sync for Lock<T> {}

impl<T> Lock<T> {
    pub(crate) const fn new(value: T) -> Lock<T> {
        Lock { word: AtomicU32::new(0), value: UnsafeCell::new(value) }
    }

    #[inline]
    pub(crate) fn lock(&self) -> Guard<'_, T> {
        if self.word.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            self.lock_contended();
        }
        Guard(self)
    }

    #[cold]
    fn lock_contended(&self) {
        for _ in 0..100 {
            if self.word.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                return;
            }
            core::hint::spin_loop();
        }
        while self.word.swap(2, Ordering::Acquire) != 0 {
            sys::futex_wait(&self.word, 2, None);
        }
    }

    /// Whether no thread holds the lock. Another thread may take it meanwhile.
    pub(crate) fn is_free(&self) -> bool {
        self.word.load(Ordering::Acquire) == 0
    }

    /// Makes the lock free and changes its value, in a child process whose other threads are gone.
    pub(crate) unsafe fn reset_with(&self, change: impl FnOnce(&mut T)) {
        change(unsafe { &mut *self.value.get() });
        self.word.store(0, Ordering::Release);
    }
}

/// Access to the value; unlocks when dropped.
pub(crate) struct Guard<'a, T>(&'a Lock<T>);

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if self.0.word.swap(0, Ordering::Release) == 2 {
            sys::futex_wake(&raw const self.0.word, 1);
        }
    }
}
