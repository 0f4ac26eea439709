//! The byte table in a snapshot: what operations and their requests take of a cache.

#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};

use super::snapshot::Name;

/// What operations and their requests take; see [`phalanx_core::ByteTable`].
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct BytesSnapshot {
    /// Types of operations that were seen, by stage, the widest first.
    pub operations: Vec<OperationBytesSnapshot>,
    /// What requests have beside their operations, as declared.
    pub objects: Vec<ObjectBytesSnapshot>,
}

/// One type of operation at one stage, in bytes.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct OperationBytesSnapshot {
    /// The stage's name.
    pub stage: Name,
    /// The path of the function whose `async` block or body it is.
    pub operation: Name,
    /// The largest of the next three: what it must have room for.
    pub closure: usize,
    /// What the caller hands over.
    pub invocation: usize,
    /// What is alive across an `await`.
    pub future: usize,
    /// What it comes to.
    pub result: usize,
    /// The slot that it lies in, header and rounding included.
    pub slot: usize,
}

/// An object that each request of a stage has.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct ObjectBytesSnapshot {
    /// The stage's name.
    pub stage: Name,
    /// As declared.
    pub name: Name,
    /// Bytes of one.
    pub bytes: usize,
}
