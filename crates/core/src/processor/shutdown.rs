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
use crate::handle::graph::LocalState;
use crate::operation::slot::Life;
use crate::processor::notify::contain;
use crate::processor::processor::Processor;
use crate::processor::waker;
use crate::queue::local::Order;

impl Drop for Processor {
    fn drop(&mut self) {
        // Invocations by the destructors below are refused, so each pool is emptied in one pass.
        self.slab().close();
        // From here on the slots' memory is the program's, however this ends.
        self.program().keep(self.slab().remains());
        self.enter(|| {
            self.end_all();
            self.end_queued();
            self.drop_slots();
            self.close_post();
        });
        waker::unregister(self.number());
        self.drop_waiters();
        self.drop_states();
    }
}

impl Processor {
    fn end_queued(&self) {
        for stage in &self.stages {
            while let Some(slot) = stage.queue.pop(Order::OldestFirst) {
                self.discard(slot, CallError::Ended);
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
            if matches!(slot.life.get(), Life::Unstarted | Life::Started | Life::Taken) {
                self.discard(slot, CallError::Ended);
            }
            contain(|| drop(slot.waiter.take()));
            contain(|| slot.drop_output());
        }
    }

    /// Drops the wakers of everyone who waits for something of this processor: one by one, since each
    /// may be foreign, and its destructor may panic.
    fn drop_waiters(&mut self) {
        let mut wakers = self.wheel.get_mut().clear();
        wakers.extend(self.joins.clear());
        wakers.extend(self.sessions.clear());
        wakers.extend(self.stages.iter().flat_map(|stage| stage.rules.capacity.clear()));
        wakers.into_iter().for_each(|waker| contain(|| drop(waker)));
    }

    fn drop_states(&mut self) {
        for stage in &mut self.stages {
            let none = LocalState { state: Rc::new(()), gate: None, batch: None };
            let local = std::mem::replace(&mut *stage.local, none);
            contain(|| drop(local.batch));
            contain(|| drop(local.gate));
            contain(|| drop(local.state));
        }
    }
}
