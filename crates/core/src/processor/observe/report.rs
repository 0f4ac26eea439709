//! Reports to the world: panics, and objects that no stage declares.

use std::any::Any;

use crate::error::CallError;
use crate::operation::slot::Site;
use crate::panic::{PanicReport, catch_panic};
use crate::processor::observe::part::Unreported;
use crate::processor::processor::Processor;
use crate::world::World;

impl Processor {
    /// Records a panic, which is reported to the world at the end of the cohort. Returns the error for the caller. The
    /// panic of a remote operation is reported by the processor that ran it.
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
            self.observe.report(Unreported::Panic(report));
        }
        error
    }

    /// Checks whether the running operation creates an object larger than those that its stage declares.
    #[inline]
    pub(crate) fn check_object<T>(&self) {
        let Some(slot) = self.current.running() else { return };
        if size_of::<T>() > self.stage(slot.stage.get().into()).cold.largest_object() {
            self.note_object(slot.stage.get(), std::any::type_name::<T>(), size_of::<T>());
        }
    }

    /// Records an object that is larger than all objects that its stage declares and than all recorded before.
    #[cold]
    #[inline(never)]
    fn note_object(&self, stage: u8, object: &'static str, bytes: usize) {
        let declared = self.stage(stage.into()).cold.replace_largest_object(bytes);
        self.observe.counters.types.note_object(stage.into(), object, bytes);
        self.observe.report(Unreported::Object { stage, object, bytes, declared });
    }

    /// Reports the panics and the undeclared objects of the last cohort to the world.
    #[inline]
    pub(crate) fn send_reports(&self, world: &impl World) {
        if !self.observe.has_reports() {
            return;
        }
        for report in self.observe.take_reports() {
            catch_panic(|| match report {
                Unreported::Panic(report) => world.on_panic(&report),
                Unreported::Object { stage, object, bytes, declared } => {
                    world.on_undeclared_object(self.stage_name(stage), object, bytes, declared);
                }
            });
        }
    }
}
