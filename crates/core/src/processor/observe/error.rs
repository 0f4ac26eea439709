//! Errors of rejected and panicked operations, with the names of their stages.

use std::any::Any;

use crate::error::{CallError, Rejection};
use crate::panic::panic_error;
use crate::processor::processor::Processor;

impl Processor {
    /// The error of a rejected invocation.
    #[cold]
    pub(crate) fn rejection(&self, rejection: Rejection) -> CallError {
        rejection.reason(|stage| self.stage_name(stage))
    }

    /// The error of an operation of `stage` that panicked.
    pub(crate) fn panic_error(&self, stage: u8, panic: &(dyn Any + Send)) -> CallError {
        panic_error(self.stage_name(stage), panic)
    }
}
