//! The end of a processor: everything that is left in it is dropped.
//!
//! Nothing that lives in a slot outlives the slot's memory. An operation may have registered a waker
//! that points into its own future (tokio's `Notify` keeps such a list), so an operation that is not
//! dropped would leave a pointer into freed memory behind. Therefore the end goes over all slots and
//! drops their contents, also an operation that is in no queue and in no session.
//!
//! Every destructor here is foreign and contained. Each may still use the processor: its invocations
//! are refused, and operations that it wakes have ended already.

use std::rc::Rc;

use crate::error::CallError;
use crate::mailbox::registry;
use crate::operation::state::SlotState;
use crate::panic::catch_panic;
use crate::processor::processor::Processor;
use crate::queue::local::PopOrder;
use crate::stage::declaration::LocalState;

impl Drop for Processor {
    fn drop(&mut self) {
        // Invocations by the destructors below are refused, so each pool is emptied in one pass.
        self.slab().close();
        // From here on the slots' memory is the program's, however this ends.
        self.program().keep(self.slab().remains());
        self.enter(|| {
            self.cancel_all();
            self.cancel_queued();
            self.drop_slots();
            self.close_mailbox();
        });
        registry::unregister(self.number());
        self.drop_waiters();
        self.drop_states();
    }
}

impl Processor {
    fn cancel_queued(&self) {
        for stage in self.stages.iter() {
            while let Some(slot) = stage.queue.pop(PopOrder::OldestFirst) {
                self.discard(slot, CallError::Cancelled);
            }
            if let Some(batch) = &stage.local.batch {
                batch.clear();
            }
        }
    }

    /// Drops the work, the waiter and the result of every slot. An invocation or result that is with
    /// another processor belongs to that one, or to the program.
    fn drop_slots(&self) {
        for slot in (0..self.slab().capacity()).filter_map(|index| self.slab().get(index)) {
            if matches!(
                slot.state.get(),
                SlotState::Unstarted | SlotState::Started | SlotState::Taken
            ) {
                self.discard(slot, CallError::Cancelled);
            }
            catch_panic(|| drop(slot.waiter.take()));
            catch_panic(|| slot.drop_output());
        }
    }

    /// Drops the wakers of everyone who waits for something of this processor: one by one, since each
    /// may be foreign, and its destructor may panic.
    fn drop_waiters(&mut self) {
        let mut wakers = self.waiting.timers.get_mut().clear();
        wakers.extend(self.waiting.joins.clear());
        wakers.extend(self.waiting.sessions.clear());
        wakers.extend(self.stages.iter().flat_map(|stage| stage.runtime.capacity.clear()));
        wakers.into_iter().for_each(|waker| catch_panic(|| drop(waker)));
    }

    fn drop_states(&mut self) {
        for stage in self.stages.iter_mut() {
            let none = LocalState { state: Rc::new(()), gate: None, batch: None };
            let local = std::mem::replace(&mut *stage.local, none);
            catch_panic(|| drop(local.batch));
            catch_panic(|| drop(local.gate));
            catch_panic(|| drop(local.state));
        }
    }
}
