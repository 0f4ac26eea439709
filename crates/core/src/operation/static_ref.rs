//! A reference that one thread writes and any thread reads.
//!
//! # Safety
//! Each write stores a pointer made from a `&'static`, and nothing writes through it.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A cell with a `&'static` that one thread writes and any thread reads. It costs no more than a plain cell.
pub(crate) struct StaticRef<T: 'static>(AtomicPtr<T>, PhantomData<&'static T>);

impl<T> StaticRef<T> {
    pub(crate) fn new(value: &'static T) -> Self {
        Self(AtomicPtr::new(std::ptr::from_ref(value).cast_mut()), PhantomData)
    }

    #[inline(always)]
    pub(crate) fn set(&self, value: &'static T) {
        self.0.store(std::ptr::from_ref(value).cast_mut(), Ordering::Relaxed);
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> &'static T {
        // SAFETY: `new` or `set` made the pointer from a `&'static`, and nothing writes through it.
        unsafe { &*self.0.load(Ordering::Relaxed) }
    }
}
