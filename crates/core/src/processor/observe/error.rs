//! Errors of rejected and panicked operations.

use std::any::Any;

use crate::error::{CallError, Rejection};
use crate::operation::slot::Slot;
use crate::panic::{discard_panic, panic_error};
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

    /// Fails an operation whose poll panicked.
    #[cold]
    pub(crate) fn fail_panicked(&self, slot: Slot, panic: Box<dyn Any + Send>) {
        let error = self.record_panic(slot.stage.get(), slot.operation(), slot.site.get(), &*panic);
        self.discard(slot, error);
        discard_panic(panic);
    }
}
