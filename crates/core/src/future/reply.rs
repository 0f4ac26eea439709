//! The reply to an item of a cohort operation. It may be sent immediately, or kept and sent later.
//!
//! # Safety
//! A reply is made for one slot when its item is taken out, by code that has the result's type
//! ([`crate::processor::policy::execute::handler`]). The slot's state is then `Taken`, and its payload is only a
//! [`RemoteReply`]. A slot is accessed only while this thread's current processor owns it. It is written only if its
//! serial shows that the slot has not been reused, and its state shows that the reply is still awaited. A serial never
//! repeats, so a reply that outlives its item writes nothing, however often the slot is reused. Each item is answered
//! once: by its reply, by its session's end or by its processor's end.

use std::convert::Infallible;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;

use crate::error::CallError;
use crate::operation::slot::Slot;
use crate::operation::state::{AWAITED, Serial, SlotState};
use crate::processor;
use crate::processor::home::{at_home, send_home};
use crate::processor::processor::Processor;
use crate::processor::remote::reply::RemoteReply;
use crate::program::processor_id::ProcessorId;

/// The right to reply to one item of a cohort, immediately or later. It may be stored or moved into an operation, but
/// it cannot leave its processor.
///
/// Dropping it fails the call with [`CallError::ReplyDropped`]. If the caller has dropped its call, or its session has
/// ended, the value is dropped.
///
/// ```compile_fail
/// fn leaves_its_thread(reply: phalanx_core::Reply<u32>) {
///     std::thread::spawn(move || reply.send(1)); // a reply is not `Send`
/// }
/// ```
#[must_use = "dropping a reply fails the caller's call"]
pub struct Reply<O> {
    slot: Slot,
    serial: Serial,
    identity: u32,
    value: PhantomData<*mut O>,
}

impl<O> Reply<O> {
    /// # Safety
    /// The slot belongs to the processor with this identity, is `Taken`, has result type `O`, and has no
    /// other reply.
    pub(crate) unsafe fn new(identity: u32, slot: Slot) -> Self {
        let serial = slot.serial.get();
        Self { slot, serial, identity, value: PhantomData }
    }

    /// Replies to the caller.
    ///
    /// # Panics
    /// If called on a processor other than the one that created the reply. The call then fails with
    /// [`CallError::ReplyDropped`].
    #[track_caller]
    pub fn send(self, value: O) {
        at_home(self.identity, "a reply", |p| {
            let this = ManuallyDrop::new(self);
            // SAFETY: the slot's result type is `O` (top of the file).
            unsafe { p.answer(this.slot, this.serial, value) };
        });
    }
}

impl<O> Drop for Reply<O> {
    fn drop(&mut self) {
        let (slot, serial) = (self.slot, self.serial);
        let lost = processor::on(self.identity, |p| p.record_drop(slot, serial));
        if lost.is_none() && ProcessorId(self.identity).is_alive() {
            // A reply is not `Send`, so its processor belongs to this thread and is not running now.
            let index = slot.id.get().index();
            send_home(self.identity, move |p| {
                p.slab().get(index).into_iter().for_each(|slot| p.record_drop(slot, serial));
            });
        }
    }
}

fn is_awaited(slot: Slot, serial: Serial) -> bool {
    slot.serial.get() == serial && slot.state.get() == SlotState::Taken
}

impl Processor {
    /// # Safety
    /// The result type of the slot's use with this serial is `O`.
    unsafe fn answer<O>(&self, slot: Slot, serial: Serial, value: O) {
        if !is_awaited(slot, serial) {
            return drop(value);
        }
        slot.state.set(SlotState::Empty);
        // SAFETY: the state `Taken` means that the remote reply is alive, and it is read once. Afterwards
        // nothing is alive in the payload, which is large enough for the result.
        unsafe {
            let mut reply = slot.payload::<RemoteReply<O>>().read();
            if reply.is_empty() {
                slot.payload::<O>().write(value);
                slot.state.set(SlotState::Done);
            } else {
                reply.send(Ok(value));
            }
        }
        self.scratch.replies.answered(slot, self.stage_counters(slot.stage.get()));
        self.finish(slot);
    }

    /// Handles a dropped reply.
    fn record_drop(&self, slot: Slot, serial: Serial) {
        // While a handler runs, the reason for the drop is not known yet: the handler may be panicking.
        if is_awaited(slot, serial) && !self.scratch.replies.lost(slot, serial) {
            let stage = self.stage_name(slot.stage.get());
            self.fail_suspended(slot, serial, CallError::ReplyDropped { stage });
        }
    }

    /// Fails a call whose item counts as suspended and will not be answered, unless it has been answered already.
    pub(crate) fn fail_suspended(&self, slot: Slot, serial: Serial, error: CallError) {
        let counters = self.stage_counters(slot.stage.get());
        let panicked = matches!(error, CallError::Panicked { .. });
        if self.fail_taken(slot, serial, error) {
            let counter = if panicked { &counters.panicked } else { &counters.cancelled };
            counter.add(1);
            counters.cancelled_suspended.add(1);
        }
    }

    /// Fails a call whose item will not be answered. Returns false if it has been answered already.
    pub(crate) fn fail_taken(&self, slot: Slot, serial: Serial, error: CallError) -> bool {
        if !is_awaited(slot, serial) {
            return false;
        }
        slot.state.set(SlotState::Empty);
        // SAFETY: the state `Taken` means that the remote reply is alive, and it is read once. Its layout and
        // an error do not depend on the type of its result.
        let mut reply = unsafe { slot.payload::<RemoteReply<Infallible>>().read() };
        if slot.has(AWAITED) {
            slot.fail(error);
        } else {
            reply.send(Err(error));
        }
        self.finish(slot);
        true
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::cell::RefCell;
    use std::future::Future;
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::world::IdleWorld;
    use crate::{Call, Cohort, CohortStage, Graph, Session};

    thread_local! {
        static RETAINED: RefCell<Vec<Reply<u64>>> = const { RefCell::new(Vec::new()) };
    }

    fn retaining_stage(graph: &mut Graph, name: &'static str) -> CohortStage<(), u64> {
        let handler = |(): &mut (), cohort: &mut Cohort<(), u64>| {
            RETAINED
                .with_borrow_mut(|replies| replies.extend(cohort.drain().map(|(_, reply)| reply)));
        };
        graph.stage(name).cohort(|_| (), handler)
    }

    fn poll(call: &mut Call<u64>) -> Poll<Result<u64, CallError>> {
        std::pin::Pin::new(call).poll(&mut Context::from_waker(Waker::noop()))
    }

    /// A stale reply and a dropped one, after more uses of the slot than an operation id can distinguish.
    #[test]
    fn a_reply_matches_only_its_own_item_after_many_uses_of_the_slot() {
        for uses in [0, 1, (1 << 24) - 1, 1 << 24, (1 << 25) - 1] {
            let mut graph = Graph::new();
            let stage = retaining_stage(&mut graph, "stage");
            let processor = graph.build(1).remove(0).build(Box::new(|| ()));
            processor.enter(|| {
                let session = Session::new();
                (0..2).for_each(|_| session.scope(|| stage.dispatch(())).unwrap());
                processor.turn(&IdleWorld);
                drop(session.end());
                let mut stale = RETAINED.take();
                processor.slab().age(uses);
                let mut calls = [stage.call(()), stage.call(())];
                processor.turn(&IdleWorld);
                stale.pop().expect("kept").send(1);
                drop(stale);
                assert!(calls.iter_mut().all(|call| poll(call).is_pending()), "{uses}");
                RETAINED.take().into_iter().for_each(|reply| reply.send(2));
                assert!(calls.iter_mut().all(|call| poll(call) == Poll::Ready(Ok(2))), "{uses}");
            });
        }
    }
}
