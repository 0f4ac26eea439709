//! A reference that one thread writes and any thread reads.
//!
//! # Safety
//! The pointer is made from a `&'static` whenever it is written, and is never written through.

use std::marker::PhantomData;
use std::panic::Location;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A `&'static` that its thread writes and others may read. Costs what a plain cell costs.
pub(crate) struct Published<T: 'static>(AtomicPtr<T>, PhantomData<&'static T>);

impl<T> Published<T> {
    pub(crate) fn new(value: &'static T) -> Self {
        Self(AtomicPtr::new(std::ptr::from_ref(value).cast_mut()), PhantomData)
    }

    #[inline(always)]
    pub(crate) fn set(&self, value: &'static T) {
        self.0.store(std::ptr::from_ref(value).cast_mut(), Ordering::Relaxed);
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> &'static T {
        // SAFETY: made from a `&'static` by `new` or `set`, and never written through.
        unsafe { &*self.0.load(Ordering::Relaxed) }
    }
}

/// Where the program invoked an operation.
pub(crate) type Site = &'static Location<'static>;
