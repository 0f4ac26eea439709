//! The byte table: the memory used by each operation type, and by the other objects of a request.
//!
//! The size of a request determines how many requests fit into a cache. In the TUX paper (§4.2) a tool, memwalk,
//! approximates it by analysis. Here the compiler knows the size of each closure and stores it in the vtable of the
//! operation type. The table lists the types that have run, by stage. A processor records the type of only the oldest
//! operation of each cohort, so a type that always runs behind others may be missing for a while. Other objects of a
//! stage's requests must be declared.

use crate::metrics::operation_types::{ObjectBytes, OperationBytes};
use crate::program::control::Control;

impl Control {
    /// The memory of each operation type that has run so far, on any processor, of each declared
    /// [object](crate::StageOptions::object), and of replicas. Operations that ran as part of their caller
    /// ([`run`](crate::SharedStage::run)) are included in the caller's bytes.
    ///
    /// ```
    /// # let mut graph = phalanx_core::Graph::new();
    /// # let control = graph.build(1)[0].control();
    /// for operation in control.bytes().operations {
    ///     println!("{} bytes: {}", operation.closure(), operation.operation);
    /// }
    /// ```
    pub fn bytes(&self) -> ByteTable {
        let types = self.0.counters.iter().flat_map(|counters| counters.types.all());
        let mut operations: Vec<OperationBytes> = types.collect();
        operations.sort_by_key(|each| (each.stage, usize::MAX - each.closure(), each.operation));
        operations.dedup();
        let stages = self.0.stages.iter().enumerate();
        let objects = stages.flat_map(|(stage, declared)| {
            let object = move |each: &(&'static str, usize)| {
                let (name, bytes) = *each;
                ObjectBytes { stage, name, bytes }
            };
            declared.objects.iter().map(object)
        });
        let stages = 0..self.0.stages.len();
        let replicas = stages.map(|stage| {
            let counters = self.0.counters.iter().map(|counters| &counters.stages[stage]);
            let bytes: u64 = counters.map(|counters| counters.replica_bytes.get()).sum();
            ObjectBytes { stage, name: "replicas", bytes: bytes as usize }
        });
        let replicas = replicas.filter(|each| each.bytes > 0).collect();
        let stacks = self.0.counters.iter().flat_map(|counters| counters.types.stacks());
        let mut stacks: Vec<ObjectBytes> = stacks.collect();
        stacks.sort_by_key(|each| (each.stage, each.name, usize::MAX - each.bytes));
        stacks.dedup_by_key(|each| (each.stage, each.name));
        let undeclared = self.0.counters.iter().flat_map(|counters| counters.types.undeclared());
        let mut undeclared: Vec<ObjectBytes> = undeclared.collect();
        undeclared.sort_by_key(|each| (each.stage, usize::MAX - each.bytes, each.name));
        undeclared.dedup();
        ByteTable { operations, objects: objects.collect(), stacks, replicas, undeclared }
    }
}

/// The memory of operations and requests; see [`Control::bytes`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ByteTable {
    /// The operation types by stage, largest first.
    pub operations: Vec<OperationBytes>,
    /// The objects, in the order of declaration.
    pub objects: Vec<ObjectBytes>,
    /// The largest measured stack use of each type of fibre, by stage.
    pub stacks: Vec<ObjectBytes>,
    /// The current replicas of each [replicated](crate::ReplicatedStage) stage on all processors, without the values.
    /// Stages without replicas are omitted.
    pub replicas: Vec<ObjectBytes>,
    /// The types of [`Pooled`](crate::Pooled) values that operations of a stage created and that are larger than every
    /// [object](crate::StageOptions::object) that the stage declares, largest first. Stages that declare no object are
    /// included only if the program has a [budget](crate::Ingress::Budget).
    pub undeclared: Vec<ObjectBytes>,
}
