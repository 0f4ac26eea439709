//! Invoking operations on the partitions of a stage.
//!
//! # Safety
//! A handle has the policy of its stage ([`crate::handle::stage`]), so the stage's local state is a `Partitions<S>`.

use std::future::Future;

use crate::error::CallError;
use crate::future::call::Call;
use crate::handle::policy::moving::move_partition::RoutedCall;
use crate::handle::stage::Stage;
use crate::processor;
use crate::processor::processor::Processor;
use crate::stage::key::CallSite;
use crate::state::partition::{Partition, Partitions};

/// A stage whose state is divided among the processors by key.
///
/// The invocation is sent to the owner of the key's partition and the result is sent back, so both are `Send`. The
/// operation's future stays on the owner and need not be `Send`.
///
/// ```compile_fail
/// fn leaves_its_thread(stage: phalanx_core::PartitionedStage<u32>, here: std::rc::Rc<u32>) {
///     let call = stage.call(1, move |_| async move { drop(here) }); // a capture is not `Send`
/// }
/// ```
///
/// ```compile_fail
/// // Nor can a handle pass for one on a subtype of the state, which would be written to.
/// type Any = for<'a> fn(&'a str) -> &'a str;
/// type Static = fn(&'static str) -> &'static str;
/// fn narrow(stage: phalanx_core::PartitionedStage<Any>) -> phalanx_core::PartitionedStage<Static> {
///     stage
/// }
/// ```
pub type PartitionedStage<S> = Stage<Partition<S>>;

impl<S: 'static> Stage<Partition<S>> {
    /// Invokes an operation on the partition of `key`, on the processor that owns it.
    #[track_caller]
    pub fn call<F, Fut, T>(&self, key: u64, operation: F) -> Call<T>
    where
        F: FnOnce(Partition<S>) -> Fut + Send + 'static,
        Fut: Future<Output = T> + 'static,
        T: Send + 'static,
    {
        self.call_from(self.key().call_site(), key, operation)
    }

    /// Invokes an operation on the partition numbered `partition`. To visit the whole state, use every number below
    /// [`partitions_count`](Self::partitions_count).
    ///
    /// ```
    /// # use phalanx_core::{PartitionedStage, join};
    /// async fn entries(table: PartitionedStage<Vec<u32>>) -> usize {
    ///     let count = |n| table.call_partition(n, |part| async move { part.with(|part| part.len()) });
    ///     let counts = join((0..table.partitions_count()).map(count).collect::<Vec<_>>()).await;
    ///     counts.into_iter().map(Result::unwrap_or_default).sum()
    /// }
    /// ```
    ///
    /// # Panics
    /// If there is no such partition.
    #[track_caller]
    pub fn call_partition<F, Fut, T>(&self, partition: usize, operation: F) -> Call<T>
    where
        F: FnOnce(Partition<S>) -> Fut + Send + 'static,
        Fut: Future<Output = T> + 'static,
        T: Send + 'static,
    {
        let call_site = self.key().call_site();
        processor::current(|p| {
            let count = self.partitions(p).table().count();
            assert!(partition < count, "no partition {partition} among {count}");
            self.call_at(p, call_site, partition, operation)
        })
    }

    pub(crate) fn call_from<F, Fut, T>(
        &self,
        call_site: CallSite,
        key: u64,
        operation: F,
    ) -> Call<T>
    where
        F: FnOnce(Partition<S>) -> Fut + Send + 'static,
        Fut: Future<Output = T> + 'static,
        T: Send + 'static,
    {
        processor::current(|p| {
            self.call_at(p, call_site, self.partitions(p).of_key(key), operation)
        })
    }

    /// Invokes an operation on the processor that owns the partition according to the table.
    #[inline]
    pub(crate) fn call_at<F, Fut, T>(
        &self,
        processor: &Processor,
        call_site: CallSite,
        partition: usize,
        operation: F,
    ) -> Call<T>
    where
        F: FnOnce(Partition<S>) -> Fut + Send + 'static,
        Fut: Future<Output = T> + 'static,
        T: Send + 'static,
    {
        let stage = *self;
        let partitions = self.partitions(processor);
        let owner = if partitions.acquire(processor.into(), self.key().stage(), partition) {
            processor.index()
        } else {
            partitions.table().owner(partition)
        };
        let invocation = move |p: &Processor, number| {
            // SAFETY: the stage belongs to this handle (top of the file).
            match unsafe { p.state::<Partitions<S>>(number) }.access(partition) {
                Some(state) => RoutedCall::Running(operation(state)),
                None => {
                    let operation = Some(operation);
                    RoutedCall::Waiting { stage, call_site, partition, operation, round: 0 }
                }
            }
        };
        Call::new(processor, processor.call_on(call_site, owner, invocation))
    }

    /// Invokes an operation whose result nobody awaits.
    ///
    /// # Errors
    /// The errors of [`SharedStage::dispatch`](crate::SharedStage::dispatch).
    #[track_caller]
    pub fn dispatch<F, Fut>(&self, key: u64, operation: F) -> Result<(), CallError>
    where
        F: FnOnce(Partition<S>) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        self.call(key, operation).detach()
    }

    /// Whether this processor owns the partition of `key`, so that a call does not leave the processor.
    pub fn is_local(&self, key: u64) -> bool {
        processor::current(|p| {
            let partitions = self.partitions(p);
            partitions.table().owner(partitions.of_key(key)) == p.index()
        })
    }

    /// The number of the partition of `key`.
    pub fn partition_of(&self, key: u64) -> usize {
        processor::current(|p| self.partitions(p).of_key(key))
    }

    /// The number of partitions, over all processors.
    pub fn partitions_count(&self) -> usize {
        processor::current(|p| self.partitions(p).table().count())
    }

    /// The number of the processor that owns a partition. The partition may be
    /// [moving](Self::move_partition), so the answer may be outdated.
    ///
    /// # Panics
    /// If there is no such partition.
    pub fn owner(&self, partition: usize) -> usize {
        processor::current(|p| self.partitions(p).table().owner(partition))
    }

    #[track_caller]
    pub(crate) fn partitions<'p>(&self, processor: &'p Processor) -> &'p Partitions<S> {
        let stage = processor.check(self.key());
        // SAFETY: the key was checked and belongs to this handle (top of the file).
        unsafe { processor.state(stage) }
    }
}
