//! Sizes of operations and request objects in a snapshot.

#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};

use super::snapshot::Name;

/// Memory of operations and their requests; see [`phalanx_core::ByteTable`].
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct BytesSnapshot {
    /// Types of operations, by stage, the largest first.
    pub operations: Vec<OperationBytesSnapshot>,
    /// Declared objects that requests own in addition to their operations.
    pub objects: Vec<ObjectBytesSnapshot>,
    /// The maximum measured stack use of fibres, by the type of their body.
    #[cfg_attr(feature = "serde", serde(default))]
    pub stacks: Vec<ObjectBytesSnapshot>,
    /// Replicas of each [replicated](crate::stage::ReplicatedStage) stage on all processors, without the values.
    #[cfg_attr(feature = "serde", serde(default))]
    pub replicas: Vec<ObjectBytesSnapshot>,
    /// The types of pooled values that are larger than every object that their stage declares.
    #[cfg_attr(feature = "serde", serde(default))]
    pub undeclared: Vec<ObjectBytesSnapshot>,
}

/// Sizes of one type of operation at one stage, in bytes.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct OperationBytesSnapshot {
    /// The stage's name.
    pub stage: Name,
    /// Path of the function that contains the operation's `async` block.
    pub operation: Name,
    /// The size of the closure, which is the largest of `invocation`, `future` and `result`.
    pub closure: usize,
    /// The captures of the invocation.
    pub invocation: usize,
    /// The values alive across an `await`.
    pub future: usize,
    /// The result.
    pub result: usize,
    /// The slot, with header and rounding.
    pub slot: usize,
}

/// An object that each request of a stage owns, the stack of a type of fibre, or all replicas of a stage.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct ObjectBytesSnapshot {
    /// The stage's name.
    pub stage: Name,
    /// Its declared name, or the type of the fibre's body.
    pub name: Name,
    /// Its size in bytes.
    pub bytes: usize,
}
