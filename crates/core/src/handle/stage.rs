//! The handle of a stage, which invokes its operations.
//!
//! # Safety
//! A handle has the policy of its stage: the same declaration creates both, and a handle is invariant in the policy, so
//! it cannot be converted to a handle with a sub- or supertype. Its key is checked against the processor's graph when
//! the handle is used. The `stage` of an invocation is the stage of the key.

use std::marker::PhantomData;

use crate::future::capacity::WaitForCapacity;
use crate::processor;
use crate::stage::key::Key;

/// A handle of a stage. `P` is the stage's policy: the type through which operations access its state.
///
/// | policy | stage | operations |
/// |---|---|---|
/// | [`Shared<S>`](crate::Shared) | [`SharedStage`](crate::SharedStage) | run on the processor that invokes them, on all processors at once |
/// | [`Partition<S>`](crate::Partition) | [`PartitionedStage`](crate::PartitionedStage) | run on the processor that owns the key's partition |
/// | [`Exclusive<S>`](crate::Exclusive) | [`ExclusiveStage`](crate::ExclusiveStage) | run on one processor at a time, under a lock taken once a cohort |
/// | [`Replicated<V>`](crate::Replicated) | [`ReplicatedStage`](crate::ReplicatedStage) | none: every processor reads values through replicas |
/// | [`Roaming<A>`](crate::Roaming) | [`BalancedStage`](crate::BalancedStage), [`AffineStage`](crate::AffineStage) | run where the runtime decides |
/// | [`Items<I, O>`](crate::Items) | [`CohortStage`](crate::CohortStage) | are items for a handler that gets a whole cohort |
/// | [`KeyedItems<I, O>`](crate::KeyedItems) | [`PartitionedCohortStage`](crate::PartitionedCohortStage) | the same, on the processor that owns the key |
/// | a [`Policy`](crate::Policy) of the program | `Stage<P>` | run where the policy says |
///
/// A handle is a copyable number. Invoking from outside an operation panics; see
/// [`Processor::enter`](crate::Processor::enter).
pub struct Stage<P> {
    key: Key,
    policy: PhantomData<fn(P) -> P>,
}

impl<P> Clone for Stage<P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P> Copy for Stage<P> {}

impl<P> Stage<P> {
    /// The handle of the stage that was declared at `key`, with this policy.
    pub(crate) fn new(key: Key) -> Self {
        Self { key, policy: PhantomData }
    }

    #[inline(always)]
    pub(crate) fn key(&self) -> Key {
        self.key
    }

    /// Whether the stage has fewer queued operations on this processor than its
    /// [capacity](crate::StageOptions::capacity).
    ///
    /// ```
    /// # use phalanx_core::Graph;
    /// let mut graph = Graph::new();
    /// let stage = graph.stage("stage").capacity(1).shared(());
    /// # let processor = graph.build(1).remove(0).build(Box::new(|| ()));
    /// # processor.enter(|| {
    /// assert!(stage.has_capacity());
    /// stage.dispatch(|_| async {}).unwrap();
    /// assert!(!stage.has_capacity());
    /// # });
    /// ```
    ///
    /// # Panics
    /// If called outside a processor.
    pub fn has_capacity(&self) -> bool {
        processor::current(|p| p.stage(usize::from(p.check(self.key))).queue.has_room())
    }

    /// Waits until the stage has capacity on this processor; see [`WaitForCapacity`].
    pub fn wait_for_capacity(&self) -> WaitForCapacity {
        WaitForCapacity::new(self.key)
    }
}
