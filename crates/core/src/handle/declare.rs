//! Methods that end a stage's declaration: each selects the policy and returns the handle.

use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use crate::handle::graph::Position;
use crate::handle::local::{ExclusiveStage, SharedStage};
use crate::handle::partitioned::PartitionedStage;
use crate::handle::policy::remake::counted;
use crate::handle::stage::Stage;
use crate::handle::stage_options::StageOptions;
use crate::stage::declaration::{DEFAULT_PARTITIONS_PER_PROCESSOR, MakeLocal, StageParts};
use crate::stage::key::Key;
use crate::stage_set::MAX_STAGES;
use crate::state::exclusive::{ExclusiveState, LocalExclusive};
use crate::state::partition::{Partitions, Table};
use crate::state::policy::take_over::TakeOver;
use crate::state::rebuildable::Rebuildable;

impl StageOptions<'_> {
    /// A shared stage (2002 §3.4): its operations run on all processors at once and access the state through `&S`.
    pub fn shared<S: Send + Sync + 'static>(self, state: S) -> SharedStage<S> {
        Stage::new(self.shared_key(state))
    }

    pub(crate) fn shared_key<S: Send + Sync + 'static>(self, state: S) -> Key {
        let state = Arc::new(state);
        self.declare(Box::new(move |_, _| StageParts::plain(Rc::new(state.clone()))))
    }

    /// A partitioned stage (2002 §3.4). Each operation has a key that selects a partition. One processor owns the
    /// partition and accesses its state through `&mut S`. Partitions can be [moved](PartitionedStage::move_partition)
    /// one by one. Each owner creates the state of its partitions by calling `make` with the partition's number.
    pub fn partitioned<S: 'static>(
        self,
        make: impl Fn(usize) -> S + Send + Sync + 'static,
    ) -> PartitionedStage<S> {
        self.partitioned_with(make, None)
    }

    /// A partitioned stage. If `take_over` is given, processors take partitions over from sleeping owners.
    pub(crate) fn partitioned_with<S: 'static>(
        self,
        make: impl Fn(usize) -> S + Send + Sync + 'static,
        take_over: Option<TakeOver<S>>,
    ) -> PartitionedStage<S> {
        let (declared, stage, name, rebuild) =
            (self.partitions, self.number(), self.declaration.name, self.rebuild);
        let make = Arc::new(make);
        let build = move |partition| {
            let (state, make) = (make(partition), make.clone());
            let remake = rebuild.then(|| counted(stage, move || make(partition)));
            Rebuildable::new(name, state, remake)
        };
        // The first processor creates the table, because the number of processors is unknown until then.
        let (table, cores) = (OnceLock::new(), self.graph.cores.clone());
        let key = self.declare(Box::new(move |processor, processors| {
            let table: &Arc<Table> = table.get_or_init(|| {
                let count = declared.unwrap_or(processors * DEFAULT_PARTITIONS_PER_PROCESSOR);
                let owners = processors.min(cores.load(Ordering::Relaxed));
                Arc::new(Table::new(count, owners, processors))
            });
            StageParts::plain(Partitions::new(table.clone(), processor, &build, take_over))
        }));
        Stage::new(key)
    }

    /// An exclusive stage (2002 §3.4): only one processor at a time runs a cohort of the stage, and accesses the state
    /// through `&mut S`. It takes a lock once per cohort. A processor that finds the lock taken skips the stage.
    pub fn exclusive<S: Send + 'static>(self, state: S) -> ExclusiveStage<S> {
        Stage::new(self.exclusive_key(state))
    }

    pub(crate) fn exclusive_key<S: Send + 'static>(self, state: S) -> Key {
        let state = Rebuildable::new(self.declaration.name, state, None);
        self.exclusive_state(state)
    }

    pub(crate) fn exclusive_state<S: Send + 'static>(self, state: Rebuildable<S>) -> Key {
        let state = Arc::new(ExclusiveState::new(state));
        self.declare(Box::new(move |_, _| {
            let local = Rc::new(LocalExclusive::new(state.clone()));
            StageParts { state: Rc::new(local.clone()), gate: Some(local), handler: None }
        }))
    }

    /// The stage's number.
    pub(crate) fn number(&self) -> u8 {
        self.stage as u8
    }

    pub(crate) fn declare(mut self, make: MakeLocal) -> Key {
        let Self { graph, stage, ref mut declaration, .. } = self;
        assert!(stage < MAX_STAGES, "at most {MAX_STAGES} stages in a graph");
        declaration.make = make;
        let declared = Position::Declared(self.declaration);
        match graph.stages.get_mut(stage) {
            Some(reserved) => *reserved = declared,
            None => graph.stages.push(declared),
        }
        Key::new(graph.id, stage as u8)
    }
}
