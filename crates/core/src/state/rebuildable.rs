//! A state that is made anew when a panic may have torn it.
//!
//! A panic that unwinds out of `with` has stopped some operation in the middle of a change. Most
//! states can live with that, as they can with an operation that was ended between two changes. A
//! stage whose state cannot says so, and the state is dropped and made by the stage's own
//! constructor before the next operation sees it.

use std::cell::{Cell, RefCell};

use crate::handle::cohort::{CohortStage, PartitionedCohortStage};
use crate::handle::graph::StageOptions;
use crate::handle::handles::{ExclusiveStage, PartitionedStage};
use crate::processor::batch::Cohort;
use crate::processor::notify::contain;
use crate::processor::processor;

/// A stage's constructor, on the processor that has the state.
pub(crate) type Remake<S> = Box<dyn Fn() -> S + Send + Sync>;

/// A state, and how it is made anew, if it is.
pub(crate) struct Mended<S> {
    stage: u8,
    torn: Cell<bool>,
    /// Empty only while it is made anew.
    state: RefCell<Option<S>>,
    remake: Option<Remake<S>>,
}

impl<S> Mended<S> {
    pub(crate) fn new(stage: u8, state: S, remake: Option<Remake<S>>) -> Self {
        Self { stage, torn: Cell::new(false), state: RefCell::new(Some(state)), remake }
    }

    /// Runs `f` with the state.
    ///
    /// # Panics
    /// If called from within `f`.
    #[inline]
    #[track_caller]
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut S) -> R) -> R {
        if self.torn.get() {
            self.rebuild();
        }
        let Ok(mut state) = self.state.try_borrow_mut() else { self.reached_twice() };
        let state = state.as_mut().expect("a state that is being made is not reached");
        if self.remake.is_none() {
            return f(state);
        }
        tearing(&self.torn, || f(state))
    }

    #[cold]
    #[track_caller]
    fn reached_twice(&self) -> ! {
        let stage = processor::try_current(|p| p.stage_name(self.stage)).unwrap_or("?");
        panic!(
            "the state of stage \"{stage}\" is reached while a `with` on it runs: `with` was \
             called inside of the closure of another `with`; let that return first"
        );
    }

    #[cold]
    fn rebuild(&self) {
        let Some(remake) = &self.remake else { return };
        // Both outside of the borrow: they are foreign.
        let torn = self.state.borrow_mut().take();
        contain(|| drop(torn));
        let state = remake();
        *self.state.borrow_mut() = Some(state);
        self.torn.set(false);
        count(self.stage);
    }
}

/// Runs `f`, and notes if it unwinds.
#[inline]
fn tearing<R>(torn: &Cell<bool>, f: impl FnOnce() -> R) -> R {
    struct Tear<'a>(&'a Cell<bool>);
    impl Drop for Tear<'_> {
        fn drop(&mut self) {
            self.0.set(true);
        }
    }
    let tear = Tear(torn);
    let result = f();
    std::mem::forget(tear);
    result
}

/// Counts a state that was made anew.
fn count(stage: u8) {
    processor::try_current(|p| p.stage_counters(stage).rebuilt.add(1));
}

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
        let state = Mended::new(self.0.number(), make(), Some(Box::new(make)));
        ExclusiveStage::new(self.0.exclusive_state(state))
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
        let state = Mended::new(self.0.number(), make(), Some(Box::new(make)));
        self.0.exclusive_cohort_of(state, handler)
    }
}
