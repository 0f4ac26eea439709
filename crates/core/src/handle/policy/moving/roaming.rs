//! Stages whose operations may run on any processor that the runtime chooses: balanced stages
//! ([`crate::processor::policy::balance::steal`]) and exclusive stages with a large state
//! ([`crate::processor::policy::balance::cache_affinity`]). Until it is sent or run, an invocation waits as an envelope
//! in the caller's processor, in the ring of the stage.

use std::future::Future;
use std::marker::PhantomData;

use crate::error::CallError;
use crate::future::call::Call;
use crate::handle::local::{LocalAccess, invocation};
use crate::handle::stage::Stage;
use crate::handle::stage_options::StageOptions;
use crate::processor;
use crate::state::exclusive::{Exclusive, Shared};

/// The policy of a stage whose operations access its state through `A`, on a processor that the runtime chooses.
///
/// The invocation and the result may cross to another processor, so both are `Send`. The future stays on the processor
/// where it starts.
///
/// ```compile_fail
/// fn leaves_its_thread(stage: phalanx_core::BalancedStage<u32>, here: std::rc::Rc<u32>) {
///     let call = stage.call(move |_| async move { drop(here) }); // a capture is not `Send`
/// }
/// ```
pub struct Roaming<A>(PhantomData<A>);

/// A shared stage whose operations run on whichever processor has time
/// ([`StageOptions::balanced`](crate::StageOptions::balanced)).
pub type BalancedStage<S> = Stage<Roaming<Shared<S>>>;

/// An exclusive stage whose operations may be sent to the processor that has its state in the cache
/// ([`StageOptions::cache_affinity`](crate::StageOptions::cache_affinity)).
///
/// ```
/// use phalanx_core::{AffineStage, CallError, Graph};
///
/// async fn sum(index: AffineStage<Vec<u64>>) -> Result<u64, CallError> {
///     index.call(|index| async move { index.with(|index| index.iter().sum()) }).await
/// }
///
/// let mut graph = Graph::new();
/// let index: AffineStage<Vec<u64>> = graph.stage("index").cache_affinity(256 << 10).exclusive(vec![1; 32 << 10]);
/// # let _ = sum(index);
/// ```
pub type AffineStage<S> = Stage<Roaming<Exclusive<S>>>;

impl<A: LocalAccess> Stage<Roaming<A>> {
    /// Invokes an operation. The operation waits in order on this processor until some processor has time for it.
    #[track_caller]
    pub fn call<F, Fut, T>(&self, operation: F) -> Call<T>
    where
        F: FnOnce(A) -> Fut + Send + 'static,
        Fut: Future<Output = T> + 'static,
        T: Send + 'static,
    {
        let call_site = self.key().call_site();
        processor::current(|p| {
            Call::new(p, p.call_by_envelope(call_site, p.index(), invocation(operation)))
        })
    }

    /// Invokes an operation whose result nobody awaits.
    ///
    /// # Errors
    /// The errors of [`SharedStage::dispatch`](crate::SharedStage::dispatch).
    #[track_caller]
    pub fn dispatch<F, Fut>(&self, operation: F) -> Result<(), CallError>
    where
        F: FnOnce(A) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        self.call(operation).detach()
    }
}

impl<'g> StageOptions<'g> {
    /// Declares that an operation of this exclusive stage touches about `bytes` bytes of its state. The runtime may
    /// then send operations to the processor that has the state in its cache, instead of moving the state (after
    /// CacheSize in tr2001 §5.1). Invocations of such a stage and their results must be `Send`. This option must be the
    /// last before the policy.
    ///
    /// ```
    /// let mut graph = phalanx_core::Graph::new();
    /// let index = graph.stage("index").max_cohort(64).cache_affinity(256 << 10).exclusive(vec![0u64; 32 << 10]);
    /// # let _ = index;
    /// ```
    ///
    /// # Panics
    /// If `bytes` is zero.
    pub fn cache_affinity(mut self, bytes: usize) -> AffineOptions<'g> {
        assert!(bytes > 0, "cache_affinity needs at least one byte");
        self.declaration.cache_affinity = bytes;
        AffineOptions(self)
    }
}

/// A stage being declared with cache affinity. Its policy can only be exclusive.
#[must_use = "end it with `exclusive`"]
pub struct AffineOptions<'g>(StageOptions<'g>);

impl AffineOptions<'_> {
    /// Like [`StageOptions::exclusive`]. A cohort runs on the processor that has the state in its cache if that moves
    /// fewer cache lines.
    pub fn exclusive<S: Send + 'static>(self, state: S) -> AffineStage<S> {
        Stage::new(self.0.exclusive_key(state))
    }
}

impl StageOptions<'_> {
    /// A balanced stage (BalanceLoad in tr2001 §5.1): a shared stage whose operations wait in order on the processor
    /// that invoked them until that processor or a less loaded one runs them.
    ///
    /// ```
    /// let mut graph = phalanx_core::Graph::new();
    /// let digest = graph.stage("digest").max_cohort(8).balanced(());
    /// # let _ = digest;
    /// ```
    pub fn balanced<S: Send + Sync + 'static>(mut self, state: S) -> BalancedStage<S> {
        (self.declaration.lifo, self.declaration.balanced) = (false, true);
        Stage::new(self.shared_key(state))
    }
}
