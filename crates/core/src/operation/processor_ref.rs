//! An opaque reference to the processor that runs an operation.
//!
//! A slot's vtable and a command call code of higher layers and pass it the processor. The lower layers cannot name the
//! processor's type, so they pass this reference, which [`Processor`](crate::Processor) converts back.
//!
//! # Safety
//! A `ProcessorRef` is only created from a `&Processor`, by `From`, and borrows it.

use std::marker::PhantomData;
use std::ptr::NonNull;

/// A borrowed processor, without its type.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct ProcessorRef<'p>(NonNull<()>, PhantomData<&'p ()>);

impl<'p> ProcessorRef<'p> {
    /// # Safety
    /// `processor` points to a `Processor` that is borrowed for `'p`.
    #[inline(always)]
    pub(crate) unsafe fn from_raw(processor: NonNull<()>) -> Self {
        Self(processor, PhantomData)
    }

    #[inline(always)]
    pub(crate) fn as_raw(self) -> NonNull<()> {
        self.0
    }
}
