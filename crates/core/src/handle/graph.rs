//! The declaration of a program: its stages in wavefront order.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::control::ingress::Ingress;
use crate::handle::local::{ExclusiveStage, SharedStage};
use crate::handle::partitioned::PartitionedStage;
use crate::handle::stage_options::StageOptions;
use crate::operation::id::MAX_OPERATIONS;
use crate::processor::build::ProcessorBuilder;
use crate::program::program::Program;
use crate::stage::declaration::StageDeclaration;
use crate::stage::settings::Settings;
use crate::stage_set::MAX_STAGES;

/// A program's stages, declared in wavefront order: from the stage that receives requests to the stages that do the
/// work. Each declaration returns a typed handle that invokes operations on its stage.
///
/// ```
/// use phalanx_core::Graph;
///
/// let mut graph = Graph::new();
/// let control = graph.shared("control", String::from("read by all"));
/// let table = graph.partitioned("table", |_partition| Vec::<u32>::new());
/// let journal = graph.stage("journal").max_cohort(64).exclusive(0u64);
/// # let _ = (control, table, journal);
/// ```
pub struct Graph {
    pub(super) id: u64,
    pub(super) stages: Vec<Position>,
    settings: Settings,
    /// The number of processors that can run at the same time.
    pub(super) cores: Arc<AtomicUsize>,
}

/// A stage's position in the wavefront.
pub(super) enum Position {
    Declared(StageDeclaration),
    /// Reserved for the stage with this name.
    Reserved(&'static str),
}

/// A position in the wavefront that is reserved for a stage; see [`Graph::reserve`].
#[must_use = "declare a stage at the reserved position"]
pub struct StageSlot {
    graph: u64,
    stage: usize,
}

impl Default for Graph {
    fn default() -> Self {
        Self::new()
    }
}

impl Graph {
    /// A graph without stages.
    pub fn new() -> Self {
        // Cannot overflow in practice: a key has 56 bits for it.
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let cores = Arc::new(AtomicUsize::new(usize::MAX));
        Self { id, stages: Vec::new(), settings: Settings::default(), cores }
    }

    /// Declares the next stage. Set its options first, then its policy, which returns the handle.
    pub fn stage(&mut self, name: &'static str) -> StageOptions<'_> {
        let stage = self.stages.len();
        self.options(stage, name)
    }

    /// Reserves the next position in the wavefront for a stage that is declared later, by [`declare`](Self::declare).
    /// Use it for a stage whose handler invokes later stages.
    ///
    /// ```
    /// use phalanx_core::{Cohort, Graph};
    ///
    /// let mut graph = Graph::new();
    /// let gather = graph.reserve("gather");
    /// let disk = graph.shared("disk", ());
    /// // Visited before the disk stage, and yet its handler has that stage's handle.
    /// let gather = graph.declare(gather).cohort(
    ///     |_processor| (),
    ///     move |_, cohort: &mut Cohort<u64, u64>| {
    ///         for (offset, reply) in cohort.drain() {
    ///             let _ = disk.dispatch(move |_| async move { reply.send(offset) });
    ///         }
    ///     },
    /// );
    /// # let _ = gather;
    /// ```
    ///
    /// # Panics
    /// If the graph already has [`MAX_STAGES`] stages.
    pub fn reserve(&mut self, name: &'static str) -> StageSlot {
        assert!(self.stages.len() < MAX_STAGES, "at most {MAX_STAGES} stages in a graph");
        self.stages.push(Position::Reserved(name));
        StageSlot { graph: self.id, stage: self.stages.len() - 1 }
    }

    /// Declares a stage at a reserved position.
    ///
    /// # Panics
    /// If the position was reserved in another graph.
    pub fn declare(&mut self, position: StageSlot) -> StageOptions<'_> {
        assert!(position.graph == self.id, "the position was reserved in another graph");
        let Position::Reserved(name) = self.stages[position.stage] else {
            unreachable!("a position is declared once")
        };
        self.options(position.stage, name)
    }

    fn options(&mut self, stage: usize, name: &'static str) -> StageOptions<'_> {
        let declaration = StageDeclaration::new(name);
        StageOptions { graph: self, stage, declaration, partitions: None, rebuild: false }
    }

    /// A [shared](StageOptions::shared) stage with the default options.
    pub fn shared<S: Send + Sync + 'static>(
        &mut self,
        name: &'static str,
        state: S,
    ) -> SharedStage<S> {
        self.stage(name).shared(state)
    }

    /// A [partitioned](StageOptions::partitioned) stage with the default options.
    pub fn partitioned<S: 'static>(
        &mut self,
        name: &'static str,
        make: impl Fn(usize) -> S + Send + Sync + 'static,
    ) -> PartitionedStage<S> {
        self.stage(name).partitioned(make)
    }

    /// An [exclusive](StageOptions::exclusive) stage with the default options.
    pub fn exclusive<S: Send + 'static>(
        &mut self,
        name: &'static str,
        state: S,
    ) -> ExclusiveStage<S> {
        self.stage(name).exclusive(state)
    }

    /// The maximum number of operations that may be alive on one processor; the default is 2²⁰. At this bound, an
    /// invocation fails with [`CallError::Full`](crate::CallError::Full).
    ///
    /// # Panics
    /// If `bound` is zero or above 2²⁴, the number of operations that wakers can name.
    pub fn max_operations(&mut self, bound: usize) {
        assert!((1..=MAX_OPERATIONS).contains(&bound), "the bound must be 1 to {MAX_OPERATIONS}");
        self.settings.max_operations = bound;
    }

    /// The limit on the requests that each processor begins; [`Ingress::Throttle`] by default.
    ///
    /// ```
    /// use phalanx_core::{Graph, Ingress};
    ///
    /// let mut graph = Graph::new();
    /// graph.ingress(Ingress::BudgetEveryStage);
    /// let accept = graph.stage("accept").entry().object::<[u8; 512]>("head").shared(());
    /// let answer = graph.stage("answer").object::<[u8; 8192]>("body").shared(());
    /// # let _ = (accept, answer);
    /// ```
    pub fn ingress(&mut self, ingress: Ingress) {
        self.settings.ingress = ingress;
    }

    /// Enables or disables tuning of cohort sizes; enabled by default. Each processor tunes the stages that declare no
    /// [`max_cohort`](StageOptions::max_cohort). It occasionally tries sizes from 1 to 512, for at most 2 % of its
    /// work, and keeps the smallest size whose cost is close to the lowest
    /// ([`CohortTunerView`](crate::CohortTunerView)). At size 1, calls run inside their callers, as on
    /// [`direct`](StageOptions::direct) stages. A processor tries no sizes while queue delays are long, while an
    /// [admission](Ingress::Admit) has a limit, or while few operations run per turn. Stages that
    /// [hold](StageOptions::hold) and stages of cohort operations keep their size.
    ///
    /// ```
    /// let mut graph = phalanx_core::Graph::new();
    /// graph.tune_cohorts(false);
    /// let parse = graph.shared("parse", ()); // as many as the cache has room for
    /// # let _ = parse;
    /// ```
    pub fn tune_cohorts(&mut self, tune: bool) {
        self.settings.tunes_cohorts = tune;
    }

    /// The size in bytes of a processor's second-level cache. If a stage declares no cohort size, a cohort has as many
    /// operations as fit into this cache, but between 16 and 256. By default the runtime reads the size from the
    /// operating system, or assumes 1 MiB if that is unavailable.
    ///
    /// # Panics
    /// If `bytes` is zero.
    pub fn cache_bytes(&mut self, bytes: usize) {
        assert!(bytes > 0, "cache_bytes must be above zero");
        self.settings.cache = Some(bytes);
    }

    /// Like [`cache_bytes`](Self::cache_bytes), but without effect if that was called before. Used by a runtime that
    /// has detected the size. Zero is ignored.
    pub fn measured_cache_bytes(&mut self, bytes: usize) {
        self.settings.cache = self.settings.cache.or((bytes > 0).then_some(bytes));
    }

    /// The number of processors that the machine can run at the same time. Used by a runtime that has detected it. If
    /// the program has more processors, only the first `cores` of them own partitions initially, because a call to a
    /// sleeping processor costs more than one to a running processor.
    ///
    /// # Panics
    /// If `cores` is zero.
    pub fn measured_cores(&mut self, cores: usize) {
        assert!(cores > 0, "measured_cores must be above zero");
        self.cores.store(cores, Ordering::Relaxed);
    }

    /// Ends the declaration. Returns one builder per processor. Send each to its thread and build its
    /// [`Processor`](crate::Processor) there.
    ///
    /// # Panics
    /// If `processors` is zero or more than 1024, if a stage was not declared at its
    /// [reserved](Self::reserve) position, or if the [ingress](Self::ingress) is a budget and no stage is an
    /// [entry](StageOptions::entry).
    pub fn build(self, processors: usize) -> Vec<ProcessorBuilder> {
        assert!((1..=1024).contains(&processors), "1 to 1024 processors, not {processors}");
        let stages = self.stages.into_iter().map(|position| match position {
            Position::Declared(declared) => declared,
            Position::Reserved(name) => {
                panic!("the stage {name:?} was not declared at its reserved position; call Graph::declare")
            }
        });
        let stages: Vec<_> = stages.collect();
        assert!(
            !self.settings.ingress.has_budget() || stages.iter().any(|stage| stage.entry),
            "a budget needs a stage where requests begin; declare one with StageOptions::entry"
        );
        let program = Program::new(self.id, stages, self.settings, processors);
        (0..processors).map(|index| ProcessorBuilder::new(program.clone(), index)).collect()
    }
}
