//! Declarations of stages whose state is rebuilt after a panic. No server of this repository has such a stage.

use crate::handle::local::ExclusiveStage;
use crate::handle::partitioned::PartitionedStage;
use crate::handle::policy::cohort::entry::Cohort;
use crate::handle::policy::cohort::stage::{CohortStage, PartitionedCohortStage};
use crate::handle::policy::remake::counted;
use crate::handle::stage::Stage;
use crate::handle::stage_options::StageOptions;
use crate::state::rebuildable::Rebuildable;

impl<'g> StageOptions<'g> {
    /// Rebuilds the state after a panic that unwound out of the state's `with` or out of a handler of cohort
    /// operations: the stage's constructor creates a new state before the next operation accesses it. This must be the
    /// last option before the policy, and the policy must have a constructor.
    ///
    /// The operation that panicked fails with [`CallError::Panicked`](crate::CallError::Panicked); other started
    /// operations continue with the new state. Without this option, the state remains as the panic left it.
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
    /// // A shared state has many readers at once, so it cannot be replaced.
    /// graph.stage("site").rebuild_on_panic().shared(0);
    /// ```
    #[must_use]
    pub fn rebuild_on_panic(mut self) -> Rebuilding<'g> {
        self.rebuild = true;
        Rebuilding(self)
    }
}

/// A stage being declared whose state is rebuilt after a panic ([`StageOptions::rebuild_on_panic`]). Its policy ends
/// the declaration.
pub struct Rebuilding<'g>(StageOptions<'g>);

impl Rebuilding<'_> {
    /// Like [`StageOptions::partitioned`]. Calls `make` again for a partition whose state a panic may have left
    /// inconsistent.
    pub fn partitioned<S: 'static>(
        self,
        make: impl Fn(usize) -> S + Send + Sync + 'static,
    ) -> PartitionedStage<S> {
        self.0.partitioned(make)
    }

    /// Like [`StageOptions::exclusive`], but with a constructor. Calls `make` now, and again after a panic, on the
    /// processor that next runs the stage.
    pub fn exclusive<S: Send + 'static>(
        self,
        make: impl Fn() -> S + Send + Sync + 'static,
    ) -> ExclusiveStage<S> {
        let state = self.0.rebuildable(make);
        Stage::new(self.0.exclusive_state(state))
    }

    /// Like [`StageOptions::cohort`]. Calls `make` again after the handler panicked.
    pub fn cohort<S: 'static, I: 'static, O: 'static>(
        self,
        make: impl Fn(usize) -> S + Send + Sync + 'static,
        handler: impl Fn(&mut S, &mut Cohort<I, O>) + Send + Sync + 'static,
    ) -> CohortStage<I, O> {
        self.0.cohort(make, handler)
    }

    /// Like [`StageOptions::partitioned_cohort`]. Calls `make` again after the handler panicked.
    pub fn partitioned_cohort<S: 'static, I: Send + 'static, O: Send + 'static>(
        self,
        make: impl Fn(usize) -> S + Send + Sync + 'static,
        handler: impl Fn(&mut S, &mut Cohort<I, O>) + Send + Sync + 'static,
    ) -> PartitionedCohortStage<I, O> {
        self.0.partitioned_cohort(make, handler)
    }

    /// Like [`StageOptions::exclusive_cohort`], but with a constructor. Calls `make` now, and again after the
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
    /// A state created by `make`, which is called now and after a panic.
    fn rebuildable<S>(&self, make: impl Fn() -> S + Send + Sync + 'static) -> Rebuildable<S> {
        Rebuildable::new(self.declaration.name, make(), Some(counted(self.number(), make)))
    }
}
