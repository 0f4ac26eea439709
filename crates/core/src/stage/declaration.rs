//! The declaration of a stage, shared by all processors.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::gate::Gate;
use crate::operation::processor_ref::ProcessorRef;
use crate::operation::slot::Site;
use crate::stage::cohort_handler::CohortHandler;
use crate::stage::limits::{HoldPolicy, Threshold, limit_of};
use crate::stage_set::StageSet;

/// The maximum cohort size, in operations, of a stage that declares none, until the cohort tuner finds a better size
/// ([`Graph::tune_cohorts`](crate::Graph::tune_cohorts)).
pub const DEFAULT_MAX_COHORT: usize = 256;
/// The maximum run time of a cohort of a stage that declares none.
pub const DEFAULT_COHORT_TIME: Duration = Duration::from_micros(200);
/// The number of partitions per processor of a partitioned stage that declares none.
pub const DEFAULT_PARTITIONS_PER_PROCESSOR: usize = 4;

/// One processor's part of a stage's state.
pub(crate) struct StageParts {
    pub(crate) state: Rc<dyn std::any::Any>,
    pub(crate) gate: Option<Rc<dyn Gate>>,
    /// The cohort handler, if operations do not run one by one.
    pub(crate) handler: Option<Rc<dyn CohortHandler>>,
}

impl StageParts {
    /// A state whose operations run one by one, without a gate.
    pub(crate) fn plain(state: Rc<dyn std::any::Any>) -> Self {
        Self { state, gate: None, handler: None }
    }
}

pub(crate) type MakeLocal = Box<dyn Fn(usize, usize) -> StageParts + Send + Sync>;

/// A hook that runs at the end of each cohort of a stage, and the location of its declaration.
pub(crate) type EndOfCohort = (Arc<dyn Fn() + Send + Sync>, Site);

/// Moves the partitions of a stage that a processor owns to the processors that should own them.
pub(crate) type Gather = fn(ProcessorRef<'_>, stage: u8);

/// The declaration of one stage.
pub(crate) struct StageDeclaration {
    pub(crate) name: &'static str,
    /// The declared maximum; `None` if the runtime chooses it.
    pub(crate) max_cohort: Option<usize>,
    pub(crate) cohort_time: u64,
    /// Whether cohorts take the newest operations of the queue first.
    pub(crate) lifo: bool,
    /// Whether calls of the stage run inline where possible.
    pub(crate) direct: bool,
    pub(crate) threshold: Threshold,
    pub(crate) hold_policy: HoldPolicy,
    pub(crate) capacity: usize,
    pub(crate) end_of_cohort: Option<EndOfCohort>,
    /// Whether other processors may steal operations queued here.
    pub(crate) balanced: bool,
    /// The bytes of the state that an operation touches, if operations may be sent to the processor that has it cached;
    /// otherwise zero.
    pub(crate) cache_affinity: usize,
    /// The names and bytes of the objects that a request owns beside its operation.
    pub(crate) objects: Vec<(&'static str, usize)>,
    /// Whether requests enter the program at this stage.
    pub(crate) entry: bool,
    /// The stages that its operations invoke, if declared.
    pub(crate) calls: Option<StageSet>,
    /// The stage that runs the cohort handlers as operations, if this stage serves one cohort at a time.
    pub(crate) runner: Option<u8>,
    /// The index of the processor that ran the last cohort, plus one. Only used with `cache_affinity`.
    pub(crate) last_processor: AtomicUsize,
    /// Set if the stage's partitions migrate.
    pub(crate) gather: Option<Gather>,
    /// Creates a processor's part of the state, given (processor, processors).
    pub(crate) make: MakeLocal,
}

impl StageDeclaration {
    /// The declaration of a stage without options, before its policy is known.
    pub(crate) fn new(name: &'static str) -> Self {
        Self {
            name,
            max_cohort: None,
            cohort_time: limit_of(DEFAULT_COHORT_TIME),
            lifo: false,
            direct: false,
            threshold: Threshold::NONE,
            hold_policy: HoldPolicy::NONE,
            capacity: usize::MAX,
            end_of_cohort: None,
            balanced: false,
            cache_affinity: 0,
            objects: Vec::new(),
            entry: false,
            calls: None,
            runner: None,
            last_processor: AtomicUsize::new(0),
            gather: None,
            make: Box::new(|_, _| unreachable!("a declaration ends with a policy")),
        }
    }

    /// The processor that probably has the state in its cache, because it ran the stage's last cohort. `None` if that
    /// is `here`.
    pub(crate) fn cached_on(&self, here: usize) -> Option<usize> {
        self.last_processor.load(Ordering::Relaxed).checked_sub(1).filter(|other| *other != here)
    }

    /// Records that a cohort has run here. Writes only if the value changes, because other processors read the cache
    /// line.
    pub(crate) fn set_last_processor(&self, here: usize) {
        if self.last_processor.load(Ordering::Relaxed) != here + 1 {
            self.last_processor.store(here + 1, Ordering::Relaxed);
        }
    }
}
