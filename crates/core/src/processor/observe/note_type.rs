//! Recording of the types of operations that a processor runs.

use crate::metrics::operation_types::{LARGE_OPERATION, OperationBytes};
use crate::metrics::type_name::display_name;
use crate::operation::size_class::stride;
use crate::operation::slot::Slot;
use crate::panic::catch_panic;
use crate::processor::processor::Processor;
use crate::world::World;

impl Processor {
    /// Records the type of an operation, unless it has been recorded.
    #[cold]
    #[inline(never)]
    pub(crate) fn note_type(&self, slot: Slot, world: &impl World) {
        let (stage, vtable) = (slot.stage.get(), slot.vtable.get());
        self.stage(usize::from(stage)).cold.set_last_type(vtable);
        if !self.observe.add_type(stage, vtable) {
            return;
        }
        let bytes = vtable.sizes;
        let each = OperationBytes {
            stage: usize::from(stage),
            operation: display_name((vtable.operation)()),
            invocation: bytes.invocation as usize,
            future: bytes.future as usize,
            result: bytes.result as usize,
            slot: stride(slot.class.get()),
        };
        self.observe.counters.types.add(each);
        if bytes.payload as usize > LARGE_OPERATION {
            catch_panic(|| {
                world.on_large_operation(
                    self.stage_name(stage),
                    each.operation,
                    bytes.payload as usize,
                )
            });
        }
    }
}
