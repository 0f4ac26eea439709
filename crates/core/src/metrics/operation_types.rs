//! The types of operations that a processor has seen, with their sizes.

use std::sync::{Mutex, PoisonError};

/// Operations whose closure takes more bytes than this are told of ([`World::on_large_operation`](crate::World::on_large_operation)).
pub const LARGE_OPERATION: usize = 4096;

/// One type of operation at one stage; see [`Control::bytes`](crate::Control::bytes).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OperationBytes {
    /// The stage's number in wavefront order.
    pub stage: usize,
    /// The path of the function whose `async` block or body it is; for a cohort operation the type
    /// of its items.
    pub operation: &'static str,
    /// What the caller hands over: the captures of the invocation.
    pub invocation: usize,
    /// What is alive across an `await`: the future.
    pub future: usize,
    /// The result.
    pub result: usize,
    /// The slot that it lies in, header and rounding included.
    pub slot: usize,
}

impl OperationBytes {
    /// The bytes of its closure: the largest of the three.
    pub fn closure(&self) -> usize {
        self.invocation.max(self.future).max(self.result)
    }
}

/// The types that a processor has seen, for others to read.
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
