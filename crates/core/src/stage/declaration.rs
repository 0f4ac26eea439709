//! A stage's declaration, as all processors share it.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::operation::published::Site;
use crate::stage::batching::Batch;
use crate::stage::limits::{HoldPolicy, Threshold};
use crate::state::exclusive::Gate;

/// The largest cohort of a stage that declares none, until its processor has tried others
/// ([`Graph::tune_cohorts`](crate::Graph::tune_cohorts)).
pub const DEFAULT_MAX_COHORT: usize = 256;
/// The longest cohort of a stage that declares nothing else.
pub const DEFAULT_COHORT_TIME: Duration = Duration::from_micros(200);
/// Partitions for each processor of a partitioned stage that declares nothing else.
pub const DEFAULT_PARTITIONS_PER_PROCESSOR: usize = 4;

/// What one processor keeps of a stage's state.
pub(crate) struct LocalState {
    pub(crate) state: Rc<dyn std::any::Any>,
    pub(crate) gate: Option<Rc<dyn Gate>>,
    /// What handles a whole cohort, where operations do not run one by one.
    pub(crate) batch: Option<Rc<dyn Batch>>,
}

pub(crate) type MakeLocal = Box<dyn Fn(usize, usize) -> LocalState + Send + Sync>;

/// Run when a cohort of a stage has ended, and where it was declared.
pub(crate) type EndOfCohort = (Arc<dyn Fn() + Send + Sync>, Site);

/// One stage's declaration.
pub(crate) struct StageDeclaration {
    pub(crate) name: &'static str,
    /// None where the runtime is to find it.
    pub(crate) max_cohort: Option<usize>,
    pub(crate) cohort_time: u64,
    /// Whether the newest operation of a processor's queue is taken first.
    pub(crate) lifo: bool,
    /// Whether its calls are run at once, where that may be.
    pub(crate) direct: bool,
    pub(crate) threshold: Threshold,
    pub(crate) hold_policy: HoldPolicy,
    pub(crate) capacity: usize,
    pub(crate) end_of_cohort: Option<EndOfCohort>,
    /// Whether other processors may take what waits here.
    pub(crate) balanced: bool,
    /// The size of the state, if operations may be sent to where it is; or zero.
    pub(crate) cache_affinity: usize,
    /// What its requests have beside their operations, by name and bytes.
    pub(crate) objects: Vec<(&'static str, usize)>,
    /// Whether requests begin there.
    pub(crate) entry: bool,
    /// The processor that ran the last cohort, and one more; kept with `cache_affinity` only.
    pub(crate) last: AtomicUsize,
    /// Makes a processor's part of the state, given (processor, processors).
    pub(crate) make: MakeLocal,
}

impl StageDeclaration {
    /// Another processor that has run the stage's last cohort.
    pub(crate) fn home(&self, here: usize) -> Option<usize> {
        self.last.load(Ordering::Relaxed).checked_sub(1).filter(|home| *home != here)
    }

    /// A cohort has run here. Written only when it changes: others read it.
    pub(crate) fn ran(&self, here: usize) {
        if self.last.load(Ordering::Relaxed) != here + 1 {
            self.last.store(here + 1, Ordering::Relaxed);
        }
    }
}
