//! Declaring a program: its stages, in wavefront order.

use std::rc::Rc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::control::ingress::Ingress;
use crate::handle::local::{ExclusiveStage, SharedStage};
use crate::handle::partitioned::PartitionedStage;
use crate::handle::policy::custom::{Part, Policy};
use crate::handle::policy::remake::counted;
use crate::handle::stage::Stage;
use crate::operation::id::MAX_OPERATIONS;
use crate::program::program::{ProcessorBuilder, Program};
use crate::stage::declaration::{
    DEFAULT_MAX_COHORT, DEFAULT_PARTITIONS_PER_PROCESSOR, LocalState, MakeLocal, StageDeclaration,
};
use crate::stage::key::Key;
use crate::stage::settings::Settings;
use crate::stage_set::MAX_STAGES;
use crate::state::exclusive::{ExclusiveState, LocalExclusive};
use crate::state::partition::{Partitions, Table};
use crate::state::policy::take_over::TakeOver;
use crate::state::rebuildable::Rebuildable;

/// A program's stages, declared in wavefront order: from where requests come in to where their work
/// is done. Each declaration gives a typed handle through which operations are invoked.
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
    id: u64,
    stages: Vec<Position>,
    settings: Settings,
    /// The number of processors that can run at the same time.
    cores: Arc<AtomicUsize>,
}

/// A stage's position in the wavefront.
enum Position {
    Declared(StageDeclaration),
    /// Reserved for the stage of this name.
    Reserved(&'static str),
}

/// A position in the wavefront that is reserved for a stage: see [`Graph::reserve`].
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
        // Never used up: a key has 56 bits for it.
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let cores = Arc::new(AtomicUsize::new(usize::MAX));
        Self { id, stages: Vec::new(), settings: Settings::default(), cores }
    }

    /// Declares the next stage: options first, then its policy, which gives the handle.
    pub fn stage(&mut self, name: &'static str) -> StageOptions<'_> {
        let stage = self.stages.len();
        self.options(stage, name)
    }

    /// Reserves the next position in the wavefront for a stage that is declared later, by
    /// [`declare`](Self::declare). A stage's handler needs this if it invokes stages behind its own.
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
    /// If the graph has [`MAX_STAGES`] already.
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

    /// The most operations that may be alive on one processor; the default is 2²⁰. At the bound an
    /// invocation fails with [`CallError::Full`](crate::CallError::Full).
    ///
    /// # Panics
    /// If `bound` is zero or above 2²⁴, the number of operations that wakers can name.
    pub fn max_operations(&mut self, bound: usize) {
        assert!((1..=MAX_OPERATIONS).contains(&bound), "a bound of 1 to {MAX_OPERATIONS}");
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

    /// Enables or disables tuning of cohort sizes; enabled by default. Each processor tunes the stages that
    /// declare no [`max_cohort`](StageOptions::max_cohort). It occasionally tries sizes from 1 to 512, in at
    /// most a fiftieth of its work, and keeps the smallest size whose cost is close to the lowest
    /// ([`CohortTunerView`](crate::CohortTunerView)). At size 1, calls run inside their callers, as those of
    /// [`direct`](StageOptions::direct) stages do. It tries nothing while work waits for long, while an
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

    /// The size in bytes of a processor's second-level cache. Where a stage declares no size, a cohort has as
    /// many operations as fit into this cache, from 16 to 256. By default the runtime asks the machine, and
    /// assumes 1 MiB if the machine reports none.
    ///
    /// # Panics
    /// If `bytes` is zero.
    pub fn cache_bytes(&mut self, bytes: usize) {
        assert!(bytes > 0, "a cache has some bytes");
        self.settings.cache = Some(bytes);
    }

    /// As [`cache_bytes`](Self::cache_bytes), unless that was called before: for a runtime that has asked the
    /// machine. Zero is ignored.
    pub fn measured_cache_bytes(&mut self, bytes: usize) {
        self.settings.cache = self.settings.cache.or((bytes > 0).then_some(bytes));
    }

    /// The number of processors that the machine can run at the same time: for a runtime that has asked it.
    /// If the program has more processors, only the first `cores` of them own partitions at first, because a
    /// call to a processor that sleeps costs more than one to a processor that runs.
    ///
    /// # Panics
    /// If `cores` is zero.
    pub fn measured_cores(&mut self, cores: usize) {
        assert!(cores > 0, "at least one core");
        self.cores.store(cores, Ordering::Relaxed);
    }

    /// Ends the declaration. Returns one builder per processor. Each is sent to its thread and becomes a
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
                panic!("the stage {name:?} was not declared at its position")
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

/// A stage being declared: its options. Ends with its policy.
pub struct StageOptions<'g> {
    graph: &'g mut Graph,
    /// A reserved position, or the next one.
    stage: usize,
    pub(crate) declaration: StageDeclaration,
    pub(crate) partitions: Option<usize>,
    pub(crate) rebuild: bool,
}

impl<'g> StageOptions<'g> {
    /// A shared stage (2002 §3.4): its operations run on all processors at once and reach the state through
    /// `&S`.
    pub fn shared<S: Send + Sync + 'static>(self, state: S) -> SharedStage<S> {
        Stage::new(self.shared_key(state))
    }

    pub(crate) fn shared_key<S: Send + Sync + 'static>(self, state: S) -> Key {
        let state = Arc::new(state);
        self.declare(Box::new(move |_, _| LocalState::plain(Rc::new(state.clone()))))
    }

    /// A partitioned stage (2002 §3.4). An operation has a key, the key selects a partition, and one
    /// processor owns the partition and reaches its state through `&mut S`. Partitions can be
    /// [moved](PartitionedStage::move_partition) one by one. `make` creates each partition's state on its
    /// processor, given the partition's number.
    pub fn partitioned<S: 'static>(
        self,
        make: impl Fn(usize) -> S + Send + Sync + 'static,
    ) -> PartitionedStage<S> {
        self.partitioned_with(make, None)
    }

    /// A partitioned stage; `take_over` takes partitions over from sleeping processors.
    pub(crate) fn partitioned_with<S: 'static>(
        self,
        make: impl Fn(usize) -> S + Send + Sync + 'static,
        take_over: Option<TakeOver<S>>,
    ) -> PartitionedStage<S> {
        let (declared, stage, name, rebuild) =
            (self.partitions, self.number(), self.name(), self.rebuild);
        let make = Arc::new(make);
        let mend = move |partition| {
            let (state, make) = (make(partition), make.clone());
            let remake = rebuild.then(|| counted(stage, move || make(partition)));
            Rebuildable::new(name, state, remake)
        };
        // Made by the first processor, since the number of processors is known only then.
        let (table, cores) = (OnceLock::new(), self.graph.cores.clone());
        let key = self.declare(Box::new(move |processor, processors| {
            let table: &Arc<Table> = table.get_or_init(|| {
                let count = declared.unwrap_or(processors * DEFAULT_PARTITIONS_PER_PROCESSOR);
                let owners = processors.min(cores.load(Ordering::Relaxed));
                Arc::new(Table::new(count, owners, processors))
            });
            LocalState::plain(Partitions::new(table.clone(), processor, &mend, take_over))
        }));
        Stage::new(key)
    }

    /// An exclusive stage (2002 §3.4): one processor at a time runs a cohort of it, under a lock taken once
    /// per cohort, and reaches the state through `&mut S`. A processor that finds the lock taken continues
    /// with its next stage.
    pub fn exclusive<S: Send + 'static>(self, state: S) -> ExclusiveStage<S> {
        Stage::new(self.exclusive_key(state))
    }

    pub(crate) fn exclusive_key<S: Send + 'static>(self, state: S) -> Key {
        let state = Rebuildable::new(self.name(), state, None);
        self.exclusive_state(state)
    }

    pub(crate) fn exclusive_state<S: Send + 'static>(self, state: Rebuildable<S>) -> Key {
        let state = Arc::new(ExclusiveState::new(state));
        self.declare(Box::new(move |_, _| {
            let local = Rc::new(LocalExclusive::new(state.clone()));
            LocalState { state: Rc::new(local.clone()), gate: Some(local), batch: None }
        }))
    }

    /// A stage with a [`Policy`] of the program.
    pub fn policy<P: Policy>(self, policy: P) -> Stage<P> {
        let policy = Arc::new(policy);
        let key = self.declare(Box::new(move |processor, processors| {
            let part = Part::new(policy.clone(), processor, processors);
            LocalState { gate: part.gate(), state: Rc::new(part), batch: None }
        }));
        Stage::new(key)
    }

    /// The stage's name.
    pub(crate) fn name(&self) -> &'static str {
        self.declaration.name
    }

    /// The stage's number.
    pub(crate) fn number(&self) -> u8 {
        self.stage as u8
    }

    pub(crate) fn declare(mut self, make: MakeLocal) -> Key {
        let Self { graph, stage, ref mut declaration, .. } = self;
        assert!(stage < MAX_STAGES, "at most {MAX_STAGES} stages in a graph");
        let max_cohort = declaration.max_cohort.unwrap_or(DEFAULT_MAX_COHORT);
        declaration.hold_policy = declaration.hold_policy.within(max_cohort);
        declaration.make = make;
        let declared = Position::Declared(self.declaration);
        match graph.stages.get_mut(stage) {
            Some(reserved) => *reserved = declared,
            None => graph.stages.push(declared),
        }
        Key::new(graph.id, stage as u8)
    }
}
