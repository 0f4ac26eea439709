//! Typed handles on stages, through which operations are invoked.
//!
//! # Safety
//! A handle's type is that of its stage's state: both are made by the same declaration, and a
//! handle is invariant in the type, so that it cannot pass for one on a sub- or supertype. Its key is
//! checked against the processor's graph when it is used; an invocation's `stage` is that of the key.

use std::future::Future;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

use crate::error::CallError;
use crate::future::call::Call;
use crate::future::session::Session;
use crate::handle::custom::{Part, Policy, Stage};
use crate::handle::migration::RoutedCall;
use crate::processor;
use crate::processor::processor::Processor;
use crate::stage::key::{Invocation, Key};
use crate::state::exclusive::{Exclusive, LocalExclusive, Shared};
use crate::state::partition::{Partition, Partitions};

macro_rules! handle {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        pub struct $name<S> {
            pub(crate) key: crate::stage::key::Key,
            state: PhantomData<fn(S) -> S>,
        }

        impl<S> $name<S> {
            pub(crate) fn new(key: crate::stage::key::Key) -> Self {
                Self { key, state: PhantomData }
            }

            /// Whether fewer operations are queued at the stage, on this processor, than its
            /// [capacity](crate::StageOptions::capacity).
            pub fn has_room(&self) -> bool {
                processor::current(|p| p.has_room(self.key))
            }

            /// Waits until the stage has room on this processor; see [`Capacity`](crate::WaitForCapacity).
            pub fn wait_for_capacity(&self) -> crate::future::capacity::WaitForCapacity {
                crate::future::capacity::WaitForCapacity::new(self.key)
            }
        }

        impl<S> Clone for $name<S> {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<S> Copy for $name<S> {}
    };
}

pub(crate) use handle;

handle! {
    /// A handle on a stage whose operations run on all processors at once.
    ///
    /// Operations stay on the processor that invokes them, so neither they nor their results need
    /// be `Send`.
    ///
    /// Invoking from outside an operation panics; see [`Processor::enter`].
    SharedStage
}

handle! {
    /// A handle on a stage whose state is divided among the processors by key.
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
    ///
    /// The invocation travels to the key's processor, the result back: both are `Send`; the future
    /// between them never moves and need not be.
    ///
    /// Invoking from outside an operation panics; see [`Processor::enter`].
    PartitionedStage
}

handle! {
    /// A handle on a stage of which one processor at a time runs a cohort.
    ///
    /// Operations stay on the processor that invokes them.
    ///
    /// Invoking from outside an operation panics; see [`Processor::enter`].
    ExclusiveStage
}

impl<S: Send + Sync + 'static> SharedStage<S> {
    #[inline(always)]
    pub(crate) fn key(&self) -> Key {
        self.key
    }

    /// Invokes an operation on this processor. It runs after the caller has suspended or finished.
    /// Await the call for its result; dropping the call lets the operation run on for nobody.
    #[inline]
    #[track_caller]
    pub fn call<F, Fut, T>(&self, operation: F) -> Call<T>
    where
        F: FnOnce(Shared<S>) -> Fut + 'static,
        Fut: Future<Output = T> + 'static,
        T: 'static,
    {
        self.call_from(self.key.invoked(), operation)
    }

    /// Invokes an operation that nobody waits for (DispatchChildren in tr2001 §5.2.1).
    ///
    /// # Errors
    /// [`CallError::Full`] or [`CallError::Cancelled`] when it was not taken.
    #[inline]
    #[track_caller]
    pub fn dispatch<F, Fut>(&self, operation: F) -> Result<(), CallError>
    where
        F: FnOnce(Shared<S>) -> Fut + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        self.dispatch_from(self.key.invoked(), operation)
    }

    /// As [`dispatch`](Self::dispatch), into `session` in place of the caller's own.
    ///
    /// # Errors
    /// As there; [`CallError::Cancelled`] if the session has ended.
    #[track_caller]
    pub fn dispatch_in<F, Fut>(&self, session: &Session, operation: F) -> Result<(), CallError>
    where
        F: FnOnce(Shared<S>) -> Fut + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        let from = self.key.invoked();
        session.scope(|| self.dispatch_from(from, operation))
    }

    /// As [`call`](Self::call), into `session` in place of the caller's own. For all other ways to
    /// invoke there is [`Session::scope`].
    ///
    /// # Panics
    /// If the session's handle is another processor's.
    #[track_caller]
    pub fn call_in<F, Fut, T>(&self, session: &Session, operation: F) -> Call<T>
    where
        F: FnOnce(Shared<S>) -> Fut + 'static,
        Fut: Future<Output = T> + 'static,
        T: 'static,
    {
        let from = self.key.invoked();
        session.scope(|| self.call_from(from, operation))
    }

    /// As [`call`](Self::call), on the processor numbered `processor`.
    ///
    /// # Panics
    /// If there is no such processor.
    #[track_caller]
    pub fn call_on<F, Fut, T>(&self, processor: usize, operation: F) -> Call<T>
    where
        F: FnOnce(Shared<S>) -> Fut + Send + 'static,
        Fut: Future<Output = T> + 'static,
        T: Send + 'static,
    {
        let invocation = move |p: &Processor, stage| operation(shared(p, stage));
        let from = self.key.invoked();
        processor::current(|p| Call::on(p, from, processor, invocation))
    }

    #[inline(always)]
    fn call_from<F, Fut, T>(&self, from: Invocation, operation: F) -> Call<T>
    where
        F: FnOnce(Shared<S>) -> Fut + 'static,
        Fut: Future<Output = T> + 'static,
        T: 'static,
    {
        processor::current(move |p| {
            Call::here(p, from, move |p, stage| operation(shared(p, stage)))
        })
    }

    #[inline(always)]
    pub(crate) fn dispatch_from<F, Fut>(
        &self,
        from: Invocation,
        operation: F,
    ) -> Result<(), CallError>
    where
        F: FnOnce(Shared<S>) -> Fut + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        processor::current(move |p| p.dispatch(from, move |p, stage| operation(shared(p, stage))))
    }
}

impl<S: 'static> PartitionedStage<S> {
    /// Invokes an operation on the partition of `key`, on the processor that owns it.
    #[track_caller]
    pub fn call<F, Fut, T>(&self, key: u64, operation: F) -> Call<T>
    where
        F: FnOnce(Partition<S>) -> Fut + Send + 'static,
        Fut: Future<Output = T> + 'static,
        T: Send + 'static,
    {
        self.call_from(self.key.invoked(), key, operation)
    }

    /// Invokes an operation on the partition numbered `partition`: one for each number from zero to
    /// [`partitions_count`](Self::partitions_count) reaches the whole of the state.
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
        let from = self.key.invoked();
        processor::current(|p| {
            let count = self.partitions(p).table().count();
            assert!(partition < count, "no partition {partition} among {count}");
            self.call_at(p, from, partition, operation)
        })
    }

    pub(crate) fn call_from<F, Fut, T>(&self, from: Invocation, key: u64, operation: F) -> Call<T>
    where
        F: FnOnce(Partition<S>) -> Fut + Send + 'static,
        Fut: Future<Output = T> + 'static,
        T: Send + 'static,
    {
        processor::current(|p| self.call_at(p, from, self.partitions(p).of_key(key), operation))
    }

    /// Invokes an operation where the table says that the partition is.
    #[inline]
    pub(crate) fn call_at<F, Fut, T>(
        &self,
        processor: &Processor,
        from: Invocation,
        partition: usize,
        operation: F,
    ) -> Call<T>
    where
        F: FnOnce(Partition<S>) -> Fut + Send + 'static,
        Fut: Future<Output = T> + 'static,
        T: Send + 'static,
    {
        let stage = *self;
        let owner = self.partitions(processor).table().owner(partition);
        Call::on(processor, from, owner, move |p: &Processor, number| {
            // SAFETY: the stage is this handle's (top of the file).
            match unsafe { p.state::<Partitions<S>>(number) }.enter(partition) {
                Some(state) => RoutedCall::Running(operation(state)),
                None => {
                    let operation = Some(operation);
                    RoutedCall::Waiting { stage, from, partition, operation, round: 0 }
                }
            }
        })
    }

    /// Invokes an operation that nobody waits for.
    ///
    /// # Errors
    /// As [`SharedStage::dispatch`].
    #[track_caller]
    pub fn dispatch<F, Fut>(&self, key: u64, operation: F) -> Result<(), CallError>
    where
        F: FnOnce(Partition<S>) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        self.call(key, operation).detach()
    }

    /// As [`call`](Self::call), into `session` in place of the caller's own.
    ///
    /// # Panics
    /// If the session's handle is another processor's.
    #[track_caller]
    pub fn call_in<F, Fut, T>(&self, session: &Session, key: u64, operation: F) -> Call<T>
    where
        F: FnOnce(Partition<S>) -> Fut + Send + 'static,
        Fut: Future<Output = T> + 'static,
        T: Send + 'static,
    {
        let from = self.key.invoked();
        session.scope(|| self.call_from(from, key, operation))
    }

    /// As [`dispatch`](Self::dispatch), into `session` in place of the caller's own.
    ///
    /// # Errors
    /// As [`SharedStage::dispatch_in`].
    ///
    /// # Panics
    /// As [`call_in`](Self::call_in).
    #[track_caller]
    pub fn dispatch_in<F, Fut>(
        &self,
        session: &Session,
        key: u64,
        operation: F,
    ) -> Result<(), CallError>
    where
        F: FnOnce(Partition<S>) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        let from = self.key.invoked();
        session.scope(|| self.call_from(from, key, operation)).detach()
    }

    /// Whether this processor owns the partition of `key`: a call there stays here.
    pub fn is_local(&self, key: u64) -> bool {
        processor::current(|p| {
            let partitions = self.partitions(p);
            partitions.table().owner(partitions.of_key(key)) == p.index()
        })
    }

    /// The number of the partition that `key` falls into.
    pub fn partition_of(&self, key: u64) -> usize {
        processor::current(|p| self.partitions(p).of_key(key))
    }

    /// How many partitions there are, over all processors.
    pub fn partitions_count(&self) -> usize {
        processor::current(|p| self.partitions(p).table().count())
    }

    /// The number of the processor that owns a partition, as far as is known here: it may just
    /// [move](Self::move_partition).
    ///
    /// # Panics
    /// If there is no such partition.
    pub fn owner(&self, partition: usize) -> usize {
        processor::current(|p| self.partitions(p).table().owner(partition))
    }

    #[inline(always)]
    pub(crate) fn key(&self) -> Key {
        self.key
    }

    #[track_caller]
    pub(crate) fn partitions<'p>(&self, processor: &'p Processor) -> &'p Partitions<S> {
        processor.check(self.key);
        // SAFETY: the key was checked and is this handle's (top of the file).
        unsafe { processor.state(self.key.stage()) }
    }
}

/// The state of the shared stage whose operation starts.
#[inline(always)]
pub(crate) fn shared<S: 'static>(processor: &Processor, stage: u8) -> Shared<S> {
    // SAFETY: called by the invocations of shared and balanced stages' handles only (top of the file).
    Shared(unsafe { processor.state_rc::<Arc<S>>(stage) })
}

/// The state of the exclusive stage whose operation starts.
#[inline(always)]
pub(crate) fn exclusive<S: 'static>(processor: &Processor, stage: u8) -> Exclusive<S> {
    // SAFETY: called by the invocations of exclusive and homed stages' handles only (top of the file).
    Exclusive(unsafe { processor.state::<Rc<LocalExclusive<S>>>(stage) }.clone())
}

impl Processor {
    /// This processor's part of a stage with a user's policy.
    #[inline]
    #[track_caller]
    pub(crate) fn part<P: Policy>(&self, stage: &Stage<P>) -> &Part<P> {
        self.check(stage.key());
        // SAFETY: the key was checked and is this handle's (top of the file).
        unsafe { self.state(stage.key().stage()) }
    }
}
