//! Starting fibres on stages.

use phalanx_core::{Call, ExclusiveStage, PartitionedStage, SharedStage};
use phalanx_core::{Exclusive, Partition, Shared};

use crate::fibre::Fibre;
use crate::operation::{FibreFuture, WithState};
use crate::stack::StackSize;

/// Starts fibres on shared and exclusive stages, whose operations run on the processor that invokes them.
pub trait LocalFibres {
    /// How an operation accesses the state: [`Shared`] or [`Exclusive`].
    type Access: 'static;

    /// Invokes a fibre on this processor, with a stack of the default size. Otherwise like
    /// [`SharedStage::call`](phalanx_core::SharedStage::call): the fibre runs after the caller has suspended or
    /// finished, and dropping the call does not cancel it.
    ///
    /// The captures of `body`, including the access to the state, must have at most 4,096 bytes; larger ones do not
    /// compile and must be boxed.
    ///
    /// # Panics
    /// If called outside a processor.
    #[track_caller]
    fn fibre<F, T>(&self, body: F) -> Call<T>
    where
        F: FnOnce(Self::Access, &Fibre<'_>) -> T + 'static,
        T: 'static,
    {
        self.fibre_with(StackSize::default(), body)
    }

    /// Like [`fibre`](Self::fibre), but with a stack of `size`.
    ///
    /// ```
    /// use phalanx_core::{CallError, SharedStage};
    /// use phalanx_fibre::{LocalFibres, StackSize};
    ///
    /// async fn deep(stage: SharedStage<()>) -> Result<u64, CallError> {
    ///     fn sum(n: u64) -> u64 {
    ///         if n == 0 { 0 } else { n + sum(n - 1) }
    ///     }
    ///     stage.fibre_with(StackSize::MiB1, |_, _| sum(1000)).await
    /// }
    /// ```
    #[track_caller]
    fn fibre_with<F, T>(&self, size: StackSize, body: F) -> Call<T>
    where
        F: FnOnce(Self::Access, &Fibre<'_>) -> T + 'static,
        T: 'static;
}

macro_rules! local_fibres {
    ($stage:ident, $access:ident: $($bound:ident)+) => {
        impl<S: $($bound +)+ 'static> LocalFibres for $stage<S> {
            type Access = $access<S>;

            #[track_caller]
            fn fibre_with<F, T>(&self, size: StackSize, body: F) -> Call<T>
            where
                F: FnOnce($access<S>, &Fibre<'_>) -> T + 'static,
                T: 'static,
            {
                let stage = self.stateless();
                self.call(move |state| FibreFuture::<F, _>::new(stage, size, WithState(state, body)))
            }
        }
    };
}

local_fibres!(SharedStage, Shared: Send Sync);
local_fibres!(ExclusiveStage, Exclusive: Send);

/// Starts fibres on partitioned stages.
pub trait KeyedFibres {
    /// The state of a stage's partition.
    type State: 'static;

    /// Invokes a fibre on the partition of `key`, on the processor that owns it, with a stack of the default size.
    /// Otherwise like [`PartitionedStage::call`](phalanx_core::PartitionedStage::call).
    ///
    /// ```
    /// use std::time::Duration;
    /// use phalanx_core::{CallError, PartitionedStage};
    /// use phalanx_fibre::KeyedFibres;
    ///
    /// async fn count_later(counts: PartitionedStage<u32>, key: u64) -> Result<u32, CallError> {
    ///     let call = counts.fibre(key, |count, fibre| {
    ///         fibre.sleep(Duration::from_secs(1));
    ///         count.with(|count| {
    ///             *count += 1;
    ///             *count
    ///         })
    ///     });
    ///     call.await
    /// }
    /// ```
    ///
    /// The captures of `body`, including the access to the state, must have at most 4,096 bytes; larger ones do not
    /// compile and must be boxed.
    ///
    /// # Panics
    /// If called outside a processor.
    #[track_caller]
    fn fibre<F, T>(&self, key: u64, body: F) -> Call<T>
    where
        F: FnOnce(Partition<Self::State>, &Fibre<'_>) -> T + Send + 'static,
        T: Send + 'static,
    {
        self.fibre_with(key, StackSize::default(), body)
    }

    /// Like [`fibre`](Self::fibre), but with a stack of `size`.
    #[track_caller]
    fn fibre_with<F, T>(&self, key: u64, size: StackSize, body: F) -> Call<T>
    where
        F: FnOnce(Partition<Self::State>, &Fibre<'_>) -> T + Send + 'static,
        T: Send + 'static;
}

impl<S: 'static> KeyedFibres for PartitionedStage<S> {
    type State = S;

    #[track_caller]
    fn fibre_with<F, T>(&self, key: u64, size: StackSize, body: F) -> Call<T>
    where
        F: FnOnce(Partition<S>, &Fibre<'_>) -> T + Send + 'static,
        T: Send + 'static,
    {
        let stage = self.stateless();
        self.call(key, move |state| FibreFuture::<F, _>::new(stage, size, WithState(state, body)))
    }
}
