//! The operation types that a processor has run, with their sizes.

use std::sync::{Mutex, PoisonError};

/// The closure size in bytes above which an operation type is reported to
/// [`World::on_large_operation`](crate::World::on_large_operation).
pub const LARGE_OPERATION: usize = 4096;

/// The sizes of one operation type at one stage; see [`Control::bytes`](crate::Control::bytes).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OperationBytes {
    /// The stage's number in wavefront order.
    pub stage: usize,
    /// The path of the function whose `async` block or body it is; for a cohort operation, the type of
    /// its items.
    pub operation: &'static str,
    /// The bytes of the invocation: the caller's captures.
    pub invocation: usize,
    /// The bytes of the future: the values alive across an `await`.
    pub future: usize,
    /// The bytes of the result.
    pub result: usize,
    /// The bytes of its slot, including the header and rounding.
    pub slot: usize,
}

impl OperationBytes {
    /// The bytes of the closure: the largest of the three.
    pub fn closure(&self) -> usize {
        self.invocation.max(self.future).max(self.result)
    }
}

/// The operation types that a processor has run, for readers on other threads.
#[derive(Default)]
pub(crate) struct OperationTypes(Mutex<Vec<OperationBytes>>);

impl OperationTypes {
    pub(crate) fn all(&self) -> Vec<OperationBytes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn add(&self, new: OperationBytes) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(new);
    }
}
