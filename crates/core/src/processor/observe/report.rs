//! Errors and reports of rejected and panicked operations.

use std::any::Any;

use crate::error::{CallError, Rejection};
use crate::operation::published::Site;
use crate::panic::{PanicReport, catch_panic, panic_error};
use crate::processor::processor::Processor;
use crate::world::World;

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

    /// Stores a report until the end of the cohort, which passes it to the world. Returns the error for the
    /// caller. The panic of a remote operation is reported by its own processor.
    #[cold]
    pub(crate) fn record_panic(
        &self,
        stage: u8,
        operation: &'static str,
        site: Site,
        panic: &(dyn Any + Send),
    ) -> CallError {
        let error = self.panic_error(stage, panic);
        if let Some(report) = PanicReport::new(&error, operation, site, panic) {
            self.observe.panics.borrow_mut().push(report);
        }
        error
    }

    /// Reports the panics of the last cohort to the world.
    #[inline]
    pub(crate) fn report_panics(&self, world: &impl World) {
        if self.observe.panics.borrow().is_empty() {
            return;
        }
        let panics = self.observe.panics.take();
        for report in panics {
            catch_panic(|| world.panicked(&report));
        }
    }
}
