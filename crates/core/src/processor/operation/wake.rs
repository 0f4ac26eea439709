//! Waking: returning a suspended operation to the queue of its stage. Step 4 of its [life cycle](super).
//!
//! # Safety
//! A row of resumptions begins `2 *` [`arcs_per_part`](crate::stage::inline_state::InlineState::arcs_per_part) counters
//! after the row of arcs. Both are part of the processor's counters, which live as long as the processor, and have one
//! counter for each stage.

use crate::mailbox::fault_injection::{Fault, fires};
use crate::operation::id::OperationId;
use crate::operation::slot::Slot;
use crate::operation::state::{CANCELLED, DYING, OUTER, QUEUED, SlotState, WOKEN};
use crate::processor::processor::Processor;

impl Processor {
    /// Wakes a suspended operation, if the slot still contains the operation with this id.
    #[inline]
    pub(crate) fn wake(&self, id: OperationId) {
        let Some(slot) = self.slab().get(id.index()) else { return };
        if slot.id.get() != id {
            return;
        }
        let flags = slot.flags.get();
        if self.current.running() == Some(slot) || flags & OUTER != 0 {
            slot.flags.set(flags | WOKEN);
        } else if flags & (QUEUED | CANCELLED | DYING) == 0
            && slot.state.get() == SlotState::Started
        {
            if fires(Fault::LostWakeUp) {
                return;
            }
            slot.flags.set(flags | QUEUED);
            self.requeue(slot, usize::from(slot.stage.get()));
            if fires(Fault::DoubleRun) {
                self.requeue(slot, usize::from(slot.stage.get()));
            }
        }
    }

    /// Queues the slot of a suspended operation, and counts a resumption by the running stage.
    #[inline(always)]
    fn requeue(&self, slot: Slot, stage: usize) {
        slot.set_queued(self.now());
        self.stages.set_ready(stage);
        let resumptions = 2 * self.stages.inline.arcs_per_part + stage;
        // SAFETY: see the top of the file.
        unsafe { (*self.current.arc_row().add(resumptions)).add(1) };
        // This comes last, so that the rare growth of a full queue is a tail call.
        self.stage(stage).queue.push(slot);
    }

    /// Requeues an operation that woke itself, and is therefore still marked as queued, behind all others of its stage.
    pub(crate) fn requeue_behind(&self, slot: Slot) {
        let local = self.stage(usize::from(slot.stage.get()));
        slot.set_queued(self.now());
        if local.lifo { local.queue.push_behind(slot) } else { local.queue.push(slot) }
    }
}
