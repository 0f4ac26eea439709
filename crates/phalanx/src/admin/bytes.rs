//! The byte table in a snapshot: what operations and their requests take of a cache.

use phalanx_core::{ByteTable, Control};
use serde::{Deserialize, Serialize};

use super::snapshot::Name;

/// What operations and their requests take; see [`phalanx_core::ByteTable`].
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct BytesSnapshot {
    /// Types of operations that were seen, by stage, the widest first.
    pub operations: Vec<OperationBytesSnapshot>,
    /// What requests have beside their operations, as declared.
    pub objects: Vec<ObjectBytesSnapshot>,
}

/// One type of operation at one stage, in bytes.
#[derive(Clone, Debug, Serialize, Deserialize)]
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
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ObjectBytesSnapshot {
    /// The stage's name.
    pub stage: Name,
    /// As declared.
    pub name: Name,
    /// Bytes of one.
    pub bytes: usize,
}

impl BytesSnapshot {
    pub(super) fn take(control: &Control, names: &[&'static str]) -> Self {
        let ByteTable { operations, objects, .. } = control.bytes();
        let operation = |each: &phalanx_core::OperationBytes| OperationBytesSnapshot {
            stage: names[each.stage].into(),
            operation: each.operation.into(),
            closure: each.closure(),
            invocation: each.invocation,
            future: each.future,
            result: each.result,
            slot: each.slot,
        };
        let object = |each: &phalanx_core::ObjectBytes| ObjectBytesSnapshot {
            stage: names[each.stage].into(),
            name: each.name.into(),
            bytes: each.bytes,
        };
        Self {
            operations: operations.iter().map(operation).collect(),
            objects: objects.iter().map(object).collect(),
        }
    }
}
