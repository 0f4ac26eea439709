//! The operation types that a processor has run, with their sizes.

use std::sync::Mutex;

use crate::sync::unpoison;

/// The closure size in bytes above which an operation type is reported to
/// [`World::on_large_operation`](crate::World::on_large_operation).
pub const LARGE_OPERATION: usize = 4096;

/// The maximum number of types that a processor records.
pub(crate) const MAX_TYPES: usize = 256;

/// The sizes of one operation type at one stage; see [`Control::bytes`](crate::Control::bytes).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OperationBytes {
    /// The stage's number in wavefront order.
    pub stage: usize,
    /// The path of the function that contains the operation's `async` block; for a cohort operation, the type of its
    /// items.
    pub operation: &'static str,
    /// The bytes of the invocation: the caller's captures.
    pub invocation: usize,
    /// The bytes of the future: the values alive across an `await`.
    pub future: usize,
    /// The bytes of the result.
    pub result: usize,
    /// The bytes of the operation's slot, including the header and rounding.
    pub slot: usize,
}

impl OperationBytes {
    /// The bytes of the closure, which is the largest of invocation, future and result.
    pub fn closure(&self) -> usize {
        self.invocation.max(self.future).max(self.result)
    }
}

/// The memory of one kind of object of a stage: an object declared by
/// [`StageOptions::object`](crate::StageOptions::object), the stack of a type of fibre, or all replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ObjectBytes {
    /// The stage's number in wavefront order.
    pub stage: usize,
    /// The declared name, the type name of the fibre's body, or `replicas`.
    pub name: &'static str,
    /// The bytes of one object, the maximum that a fibre of this type has used of its stack, or the bytes of all
    /// replicas.
    pub bytes: usize,
}

/// The operation types that a processor has run, for readers on other threads.
#[derive(Default)]
pub(crate) struct OperationTypes {
    operations: Mutex<Vec<OperationBytes>>,
    stacks: Mutex<Vec<ObjectBytes>>,
    undeclared: Mutex<Vec<ObjectBytes>>,
}

impl OperationTypes {
    pub(crate) fn all(&self) -> Vec<OperationBytes> {
        unpoison(self.operations.lock()).clone()
    }

    pub(crate) fn add(&self, new: OperationBytes) {
        unpoison(self.operations.lock()).push(new);
    }

    /// The maximum stack use of each type of fibre.
    pub(crate) fn stacks(&self) -> Vec<ObjectBytes> {
        unpoison(self.stacks.lock()).clone()
    }

    /// The objects that are larger than those that their stage declares.
    pub(crate) fn undeclared(&self) -> Vec<ObjectBytes> {
        unpoison(self.undeclared.lock()).clone()
    }

    pub(crate) fn note_object(&self, stage: usize, name: &'static str, bytes: usize) {
        let mut undeclared = unpoison(self.undeclared.lock());
        if undeclared.len() < MAX_TYPES {
            undeclared.push(ObjectBytes { stage, name, bytes });
        }
    }

    pub(crate) fn note_stack(&self, stage: usize, name: &'static str, bytes: usize) {
        let mut stacks = unpoison(self.stacks.lock());
        match stacks.iter().position(|each| (each.stage, each.name) == (stage, name)) {
            Some(known) => stacks[known].bytes = stacks[known].bytes.max(bytes),
            None if stacks.len() < MAX_TYPES => stacks.push(ObjectBytes { stage, name, bytes }),
            None => (),
        }
    }
}
