//! Declaring stages whose state is made again after a panic.

use crate::future::cohort::Cohort;
use crate::handle::cohort::{CohortStage, PartitionedCohortStage};
use crate::handle::graph::StageOptions;
use crate::handle::local::ExclusiveStage;
use crate::handle::partitioned::PartitionedStage;
use crate::handle::remake::counted;
use crate::handle::stage::Stage;
use crate::state::rebuildable::Rebuildable;

impl<'g> StageOptions<'g> {
    /// After a panic that unwound out of the state's `with`, or out of a cohort operation's handler,
    /// the state is dropped and made anew by the stage's constructor before the next operation sees
    /// it. The last option before the policy: what follows is a policy with a constructor.
    ///
    /// The operation that panicked fails as always, with
    /// [`CallError::Panicked`](crate::CallError::Panicked); others that had begun go on with the new
    /// state. Without this a state is kept as the panic left it.
    ///
    /// ```
    /// let mut graph = phalanx_core::Graph::new();
    /// let index = graph.stage("index").rebuild_on_panic().partitioned(|_| Vec::<u32>::new());
    /// let log = graph.stage("log").rebuild_on_panic().exclusive(|| String::new());
    /// # let _ = (index, log);
    /// ```
    ///
    /// ```compile_fail
    /// let mut graph = phalanx_core::Graph::new();
    /// // A shared state has many readers at once: there is no moment to replace it.
    /// graph.stage("site").rebuild_on_panic().shared(0);
    /// ```
    #[must_use]
    pub fn rebuild_on_panic(mut self) -> Rebuilding<'g> {
        self.rebuild = true;
        Rebuilding(self)
    }
}

/// A stage being declared whose state is made anew after a panic
/// ([`StageOptions::rebuild_on_panic`]). Ends with a policy.
pub struct Rebuilding<'g>(StageOptions<'g>);

impl Rebuilding<'_> {
    /// As [`StageOptions::partitioned`]. `make` is called again for a partition that was torn.
    pub fn partitioned<S: 'static>(
        self,
        make: impl Fn(usize) -> S + Send + Sync + 'static,
    ) -> PartitionedStage<S> {
        self.0.partitioned(make)
    }

    /// As [`StageOptions::exclusive`], with a constructor: called here, and again, on the processor
    /// that next runs the stage, when the state was torn.
    pub fn exclusive<S: Send + 'static>(
        self,
        make: impl Fn() -> S + Send + Sync + 'static,
    ) -> ExclusiveStage<S> {
        let state = self.0.rebuildable(make);
        Stage::new(self.0.exclusive_state(state))
    }

    /// As [`StageOptions::cohort`]. `make` is called again after the handler panicked.
    pub fn cohort<S: 'static, I: 'static, O: 'static>(
        self,
        make: impl Fn(usize) -> S + Send + Sync + 'static,
        handler: impl Fn(&mut S, &mut Cohort<I, O>) + Send + Sync + 'static,
    ) -> CohortStage<I, O> {
        self.0.cohort(make, handler)
    }

    /// As [`StageOptions::partitioned_cohort`]. `make` is called again after the handler panicked.
    pub fn partitioned_cohort<S: 'static, I: Send + 'static, O: Send + 'static>(
        self,
        make: impl Fn(usize) -> S + Send + Sync + 'static,
        handler: impl Fn(&mut S, &mut Cohort<I, O>) + Send + Sync + 'static,
    ) -> PartitionedCohortStage<I, O> {
        self.0.partitioned_cohort(make, handler)
    }

    /// As [`StageOptions::exclusive_cohort`], with a constructor: called here, and again after the
    /// handler panicked.
    pub fn exclusive_cohort<S: Send + 'static, I: 'static, O: 'static>(
        self,
        make: impl Fn() -> S + Send + Sync + 'static,
        handler: impl Fn(&mut S, &mut Cohort<I, O>) + Send + Sync + 'static,
    ) -> CohortStage<I, O> {
        let state = self.0.rebuildable(make);
        self.0.exclusive_cohort_of(state, handler)
    }
}

impl StageOptions<'_> {
    /// A state that `make` makes, now and after a panic.
    fn rebuildable<S>(&self, make: impl Fn() -> S + Send + Sync + 'static) -> Rebuildable<S> {
        Rebuildable::new(self.name(), make(), Some(counted(self.number(), make)))
    }
}
