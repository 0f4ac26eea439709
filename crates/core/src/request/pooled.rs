//! Request-scoped values, allocated from their processor's pools.
//!
//! # Safety
//! A [`Pooled`] owns one block of the pools, which it got from `Pools::take` and which its destructor returns once. The
//! block has the size and the alignment of the value's class. [`Pooled::pin`] guarantees that the value never moves;
//! therefore there is no `into_inner`.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::ptr::NonNull;
use std::rc::Rc;

use crate::memory::pool::Pools;
use crate::operation::size_class::{MAX_PAYLOAD, class_of};
use crate::processor;

/// A box in its processor's pools, for values that live as long as a request. It reuses the memory of the most recently
/// dropped value of the same size class, so it calls the allocator only when the pools grow. It is not `Send` and stays
/// on its processor.
///
/// ```
/// use phalanx_core::{Graph, Pooled};
///
/// let mut graph = Graph::new();
/// let read = graph.stage("read").object::<[u8; 4096]>("buffer").shared(());
/// let processor = graph.build(1).remove(0).build(Box::new(|| ()));
/// processor.enter(|| {
///     let first = Pooled::new([0u8; 4096]);
///     let place = first.as_ptr();
///     drop(first);
///     assert_eq!(Pooled::new([1u8; 4096]).as_ptr(), place, "last freed, first used");
/// });
/// # let _ = read;
/// ```
///
/// ```compile_fail
/// fn leaves_its_thread(value: phalanx_core::Pooled<u32>) {
///     std::thread::spawn(move || drop(value));
/// }
/// ```
pub struct Pooled<T> {
    value: NonNull<T>,
    pools: Rc<Pools>,
}

impl<T> Pooled<T> {
    const CLASS: usize = {
        assert!(
            size_of::<T>() <= MAX_PAYLOAD && align_of::<T>() <= 64,
            "an object is larger than 16 KiB, or aligned to more than 64 bytes: box it"
        );
        class_of(size_of::<T>())
    };

    /// Moves `value` into the pools of this processor.
    ///
    /// # Panics
    /// If called outside a processor.
    #[inline]
    #[track_caller]
    pub fn new(value: T) -> Self {
        let class = const { Self::CLASS };
        processor::current(|processor| {
            processor.check_object::<T>();
            let pools = &processor.memory.pools;
            let block = pools.take(class, processor.slab());
            let place = block.cast::<T>();
            // SAFETY: the block is of the value's class, so it is large enough, and it is aligned to 64 bytes.
            unsafe { place.write(value) };
            Self { value: place, pools: pools.clone() }
        })
    }

    /// Moves `value`, such as a future, into the pools of this processor and pins it there.
    ///
    /// ```
    /// use phalanx_core::{Pooled, SharedStage};
    ///
    /// # async fn parse(_: [u8; 4096]) {}
    /// /// Waits most of the time. The parser's state is not part of its slot and exists only while there is input.
    /// async fn serve(input: SharedStage<()>) {
    ///     while let Ok(bytes) = input.call(|_| async { [0; 4096] }).await {
    ///         Pooled::pin(parse(bytes)).await;
    ///     }
    /// }
    /// # let _ = serve;
    /// ```
    ///
    /// # Panics
    /// If called outside a processor.
    #[inline]
    #[track_caller]
    pub fn pin(value: T) -> Pin<Self> {
        // SAFETY: no method of `Pooled`, `Deref` and `Drop` included, moves the value out of its block. The block is
        // reused only after the value was dropped in place; a leaked `Pooled` keeps its pools alive, and thus the
        // block. `Pooled` is `Unpin` for any `T`, because moving it does not move the value.
        unsafe { Pin::new_unchecked(Self::new(value)) }
    }
}

impl<T> Deref for Pooled<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the value is alive, and only this object owns it.
        unsafe { self.value.as_ref() }
    }
}

impl<T> DerefMut for Pooled<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { self.value.as_mut() }
    }
}

impl<T> Drop for Pooled<T> {
    #[inline]
    fn drop(&mut self) {
        /// Returns the block even if the destructor panics.
        struct Back<'a>(&'a Pools, usize, NonNull<u8>);
        impl Drop for Back<'_> {
            fn drop(&mut self) {
                // SAFETY: only this object owns the block, which is of this class, and the value has been dropped.
                unsafe { self.0.release(self.1, self.2) };
            }
        }
        let _back = Back(&self.pools, Self::CLASS, self.value.cast());
        // SAFETY: the value is alive and is not used again.
        unsafe { self.value.drop_in_place() };
    }
}

impl<T: fmt::Debug> fmt::Debug for Pooled<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
