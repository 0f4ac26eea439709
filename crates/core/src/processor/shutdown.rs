//! Shutdown of a program, from the request to drain or end it until its last memory is freed.
//!
//! 1. Any thread calls [`Control::drain`](crate::Control::drain) or [`Control::end`](crate::Control::end).
//!    The phase advances, and every mailbox is marked, which unparks sleeping processors.
//! 2. Draining: the servers stop accepting. Each processor's own thread continues its loop (`turn.rs`) until
//!    all processors are idle.
//! 3. Ending: each processor's thread cancels every operation in its slab. It repeats this after every turn that ran
//!    something, because destructors may invoke operations and other processors may send some.
//! 4. A processor's thread leaves the loop when no processor of the program is marked busy, it has no live
//!    operation, and its mailbox contains no command. A processor marks itself busy before it sends and until
//!    all replies to its requests have arrived, so nothing is in transit then.
//! 5. The thread drops the processor. If the processor slept, the thread waits for the end of a visit
//!    ([`crate::mailbox::visit`]). Then the slab is closed, so that destructors cannot invoke anything and each pool is
//!    emptied in one pass. The slab's memory is handed to the program.
//! 6. On the same thread, all operations are cancelled; then the queues, the slots (work, waiter, result) and
//!    the outbox are emptied.
//! 7. The processor leaves the registry, so wake-ups from other threads find nothing. Other processors get replies
//!    about the sessions that have not settled. Then the wakers of timers, joins, sessions and capacity waiters are
//!    dropped, then the states of the stages. Last the mailbox is [closed](crate::program::busy):
//!    invocations that it contains return and fail.
//! 8. The thread that drops the last reference to the program drops, in this order: the contents of envelopes that
//!    returned to processors after their end, and the commands for these processors; the states that processors share;
//!    the memory of the slabs. So an envelope's contents are always dropped before the memory that contains them.
//!
//! Nothing in a slot outlives the slot's memory. An operation may have registered a pointer into its own future, as
//! tokio's `Notify` does in its list of waiters. If the future were not dropped, the pointer would dangle. Therefore
//! step 6 visits all slots, including those of operations that are in no queue and in no session.
//!
//! Every destructor in steps 5 to 8 is user code, and its panic is caught and discarded. A destructor may still use the
//! processor during step 6. Its invocations are rejected, and the operations that it wakes are already cancelled.

use std::rc::Rc;

use crate::error::CallError;
use crate::mailbox::registry;
use crate::operation::state::SlotState;
use crate::panic::catch_panic;
use crate::processor::processor::Processor;
use crate::processor::remote::commands::reply;
use crate::queue::local::PopOrder;
use crate::stage::declaration::StageParts;

impl Drop for Processor {
    fn drop(&mut self) {
        // The processor may have been dropped while it slept. From here on, no other thread visits it.
        self.link.mailbox().parking.set_awake(std::hint::spin_loop);
        // The closed slab rejects invocations by the destructors below, so each pool is emptied in one pass.
        self.slab().close();
        // From here on the program owns the memory of the slots, even if this unwinds.
        self.program().retire(self.slab().retire());
        self.enter(|| {
            self.cancel_all();
            self.cancel_queued();
            self.drop_slots();
            self.send_the_rest();
        });
        registry::unregister(self.waker_number);
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
            if let Some(handler) = &stage.parts.handler {
                handler.clear();
            }
        }
    }

    /// Drops the work, the waiter and the result of every slot. An invocation or result that is in transit belongs to
    /// another processor or to the program.
    fn drop_slots(&self) {
        for slot in self.slab().slots() {
            if matches!(
                slot.state.get(),
                SlotState::Unstarted | SlotState::Started | SlotState::Taken
            ) {
                self.discard(slot, CallError::Cancelled);
            }
            catch_panic(|| drop(slot.waiter.take()));
            self.observe.counters.watch.destroy(slot, || slot.drop_output());
        }
    }

    /// Drops the wakers of all futures that wait on this processor. Panics are caught for each waker separately,
    /// because a foreign waker's destructor may panic.
    fn drop_waiters(&mut self) {
        let mut wakers = self.waiting.timers.get_mut().clear();
        wakers.extend(self.waiting.joins.clear());
        let sessions = self.waiting.sessions.clear();
        sessions.replies.into_iter().for_each(|to| catch_panic(|| reply(to)));
        wakers.extend(sessions.wakers);
        wakers.extend(self.stages.iter().flat_map(|stage| stage.cold.capacity.take_waiting()));
        wakers.into_iter().for_each(|waker| catch_panic(|| drop(waker)));
    }

    fn drop_states(&mut self) {
        for stage in self.stages.iter_mut() {
            let none = StageParts::plain(Rc::new(()));
            let parts = std::mem::replace(&mut *stage.parts, none);
            catch_panic(|| drop(parts.handler));
            catch_panic(|| drop(parts.gate));
            catch_panic(|| drop(parts.state));
        }
    }
}
