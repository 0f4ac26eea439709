//! The byte table: what an operation of each type takes, and what a request has beside it.
//!
//! How many requests a cache has room for follows from their bytes. The compiler knows those of each
//! closure, so no tool has to walk the program (memwalk in the TUX paper, §4.2): the vtable of a type
//! of operation says them, and the table has the types that were seen, by stage. They are looked for
//! once a cohort, at its oldest operation: a type that runs only behind others may be missing for a
//! while. What the requests of a stage have beside their operations is declared.

use crate::metrics::operation_types::OperationBytes;
use crate::program::program::Control;

impl Control {
    /// What each type of operation takes that was seen so far, on any processor, and each declared
    /// [object](crate::StageOptions::object). Parts of a caller ([`run`](crate::SharedStage::run)) are in
    /// their caller's.
    ///
    /// ```
    /// # let mut graph = phalanx_core::Graph::new();
    /// # let control = graph.build(1)[0].control();
    /// for operation in control.bytes().operations {
    ///     println!("{} bytes: {}", operation.closure(), operation.operation);
    /// }
    /// ```
    pub fn bytes(&self) -> ByteTable {
        let seen = self.0.counters.iter().flat_map(|counters| counters.types.all());
        let mut operations: Vec<OperationBytes> = seen.collect();
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
        ByteTable { operations, objects: objects.collect() }
    }
}

/// One kind of object that requests of a stage have beside their operations: see
/// [`StageOptions::object`](crate::StageOptions::object).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ObjectBytes {
    /// The stage's number in wavefront order.
    pub stage: usize,
    /// As declared.
    pub name: &'static str,
    /// Of one object.
    pub bytes: usize,
}

/// What operations and their requests take; see [`Control::bytes`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ByteTable {
    /// By stage, the widest first.
    pub operations: Vec<OperationBytes>,
    /// In the order of declaration.
    pub objects: Vec<ObjectBytes>,
}
