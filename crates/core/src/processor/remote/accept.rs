//! Acceptance of envelopes on the target's thread (steps 3 and 4 of [`crate::processor::remote::call`]).
//!
//! # Safety
//! The safety conditions of [`crate::operation::envelope`] apply. The functions of an envelope's vtable have the types
//! that the envelope was filled with.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use crate::error::{CallError, Rejection};
use crate::operation::cancel_flag::RemoteSlot;
use crate::operation::envelope::Envelope;
use crate::operation::processor_ref::ProcessorRef;
use crate::operation::slot::{OperationSizes, Site, Slot, VTable, output_drop};
use crate::operation::state::{CANCELLED, SlotState};
use crate::panic::drop_in_catch;
use crate::processor::operation::vtable::Invoke;
use crate::processor::processor::Processor;
use crate::processor::remote::reply::{RemoteFuture, RemoteReply};
use crate::session::group::Group;

/// An invocation or item in an envelope, and the session of its operation.
pub(crate) struct Sent<F> {
    pub(crate) group: Option<Arc<Group>>,
    pub(crate) invocation: F,
}

impl Processor {
    /// Accepts an envelope from another processor: its invocation becomes an operation here, the newest of its stage's
    /// queue. Returns `None` if it was rejected.
    pub(crate) fn accept_remote(&self, Envelope(slot): Envelope) -> Option<Slot> {
        // SAFETY: the vtable is the one that the envelope was filled with.
        unsafe { (slot.vtable.get().accept)(slot, self.into()) }
    }
}

/// The vtable of envelopes with an invocation `F` and a result `T`. `accept` must be for the same types.
pub(crate) const fn envelope_vtable<F, T>(
    accept: unsafe fn(Slot, ProcessorRef<'_>) -> Option<Slot>,
    operation: fn() -> &'static str,
) -> VTable {
    VTable {
        poll: |_, _| unreachable!("an envelope is not run by its caller's processor"),
        drop_work: drop_sent::<F>,
        drop_output: output_drop::<T>(),
        operation,
        sizes: OperationSizes::NONE,
        accept,
    }
}

/// The vtable of envelopes with an operation.
pub(crate) fn operation_vtable<F: Invoke + Send>() -> &'static VTable
where
    F::Result: Send,
{
    const { &envelope_vtable::<F, F::Result>(accept_operation::<F>, std::any::type_name::<F::Future>) }
}

unsafe fn drop_sent<F>(slot: Slot) {
    slot.state.set(SlotState::Empty);
    // SAFETY: only called in the state `Unstarted`, so the invocation was never taken.
    unsafe { slot.payload::<Sent<F>>().drop_in_place() }
}

unsafe fn accept_operation<F: Invoke + Send>(
    slot: Slot,
    processor: ProcessorRef<'_>,
) -> Option<Slot>
where
    F::Result: Send,
{
    let processor = processor.get();
    // SAFETY: the envelope came through a ring and has this vtable.
    unsafe {
        receive::<F, F::Result>(slot, processor, |site, stage, invocation, mut reply| {
            processor.enqueue(
                site,
                stage,
                0,
                move |processor: &Processor, stage| match catch_unwind(AssertUnwindSafe(|| {
                    invocation.start(processor, stage)
                })) {
                    Ok(future) => RemoteFuture { future, reply },
                    Err(panic) => {
                        reply.send(Err(processor.panic_error(stage, &*panic)));
                        resume_unwind(panic)
                    }
                },
            )
        })
    }
}

/// Takes the invocation or item out of an envelope that has arrived. `enqueue` turns it into an operation of this
/// processor, in the session that the envelope names.
///
/// # Safety
/// The envelope came through a ring, was filled with these types, and is received once.
pub(crate) unsafe fn receive<F, T>(
    slot: Slot,
    processor: &Processor,
    enqueue: impl FnOnce(Site, u8, F, RemoteReply<T>) -> Result<Slot, Rejection>,
) -> Option<Slot> {
    // SAFETY: the envelope came through a ring, so this processor owns the payload. The invocation is read once.
    let (transit, Sent { group, invocation }) =
        unsafe { (&*slot.transit(), slot.payload::<Sent<F>>().read()) };
    transit.contents.set(SlotState::Empty);
    // The stage field was written before the envelope was sent and is read-only while it is away.
    let stage = slot.stage.get();
    let mut invocation = Some(invocation);
    let mut reply = RemoteReply::<T>::new(slot);
    let joined = processor.with_group(group, || {
        // An envelope is accepted when its operation is about to start, so the deadline is checked now.
        let sessions = &processor.waiting.sessions;
        if sessions.is_expired(sessions.current(), processor.now()) {
            processor.stage_counters(stage).shed_deadline.add(1);
            reply.send(Err(CallError::DeadlinePassed));
            return None;
        }
        let invocation = invocation.take()?;
        if !processor.slab().has_room() || !processor.stage(stage.into()).queue.has_room() {
            let rejection = processor.reject(stage, invocation);
            reply.send(Err(processor.rejection(rejection)));
            return None;
        }
        let reply = std::mem::replace(&mut reply, RemoteReply::EMPTY);
        let enqueue = || enqueue(transit.site, stage, invocation, reply);
        let operation =
            processor.arriving_from(transit.caller, transit.caller_stage, enqueue).ok()?;
        let (index, serial) = (operation.id.get().index(), operation.serial.get());
        if transit.cancel.arrive(RemoteSlot { processor: processor.index(), index, serial }) {
            operation.set(CANCELLED);
        }
        Some(operation)
    });
    // If the invocation was not accepted, its destructor, which is user code, runs here. The reply is sent even if it
    // panics.
    invocation.into_iter().for_each(drop_in_catch);
    // If no reply has been sent yet, this tells the caller that its session has ended.
    drop(reply);
    if joined.is_none() {
        processor.stage_counters(stage).cancelled.add(1);
    }
    joined.flatten()
}
