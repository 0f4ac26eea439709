//! Request-scoped values in their processor's pools.
//!
//! # Safety
//! A [`Pooled`] owns one block of the pools. `Pools::take` takes it, and the destructor returns it once. The
//! block has the size and the alignment of the value's class. [`Pooled::pin`] promises that the value never moves;
//! therefore there is no `into_inner`.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::ptr::NonNull;
use std::rc::Rc;

use crate::memory::pool::Pools;
use crate::operation::size_class::{MAX_PAYLOAD, class_of};
use crate::processor;

/// A request-scoped value in its processor's pools: a box that reuses the memory of the value of its size
/// class most recently dropped here. It calls no allocator once the pools have grown. It is not `Send`: it
/// stays on its processor.
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

    /// Puts `value` into the pools of this processor.
    ///
    /// # Panics
    /// Outside of a processor.
    #[inline]
    #[track_caller]
    pub fn new(value: T) -> Self {
        let class = const { Self::CLASS };
        processor::current(|processor| {
            processor.check_object::<T>();
            let pools = &processor.memory.pools;
            let block = pools.take(class, processor.slab());
            let place = block.cast::<T>();
            // SAFETY: a block of the class, which has the size and is aligned to 64.
            unsafe { place.write(value) };
            Self { value: place, pools: pools.clone() }
        })
    }

    /// Puts `value`, such as a future, into the pools of this processor, where it stays until it is dropped.
    ///
    /// ```
    /// use phalanx_core::{Pooled, SharedStage};
    ///
    /// # async fn parse(_: [u8; 4096]) {}
    /// /// Mostly waits. Its slot has no room for the parser's state, which exists while there is input.
    /// async fn serve(input: SharedStage<()>) {
    ///     while let Ok(bytes) = input.call(|_| async { [0; 4096] }).await {
    ///         Pooled::pin(parse(bytes)).await;
    ///     }
    /// }
    /// # let _ = serve;
    /// ```
    ///
    /// # Panics
    /// Outside of a processor.
    #[inline]
    #[track_caller]
    pub fn pin(value: T) -> Pin<Self> {
        // SAFETY: no method of `Pooled`, `Deref` and `Drop` included, moves the value out of its block. The block is
        // reused only after the value was dropped in place; a leaked `Pooled` keeps its pools, and so the block.
        // `Pooled` is `Unpin` whatever the value is, because moving it does not move the value.
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
                // SAFETY: only this object owns the block, which is of this class, and its value is gone.
                unsafe { self.0.give(self.1, self.2) };
            }
        }
        let _back = Back(&self.pools, Self::CLASS, self.value.cast());
        // SAFETY: alive until here, and not used again.
        unsafe { self.value.drop_in_place() };
    }
}

impl<T: fmt::Debug> fmt::Debug for Pooled<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
