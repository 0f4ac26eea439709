//! The generic code of an operation's type: starting it, polling it and dropping it in its slot.
//!
//! # Safety
//! The safety conditions of [`crate::operation::slot`]: a function here is called through the vtable that the slot was
//! filled with, so the types are the slot's, and [`Header::state`](crate::operation::slot::Header) states
//! which member of the payload is alive.

use std::future::Future;
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::operation::processor_ref::ProcessorRef;
use crate::operation::sizes::OperationSizes;
use crate::operation::slot::{Payload, RemoteVTable, Slot, Step, VTable, output_drop};
use crate::operation::state::SlotState;
use crate::processor::processor::Processor;
use crate::processor::waker::waker;

/// The vtable of local operations.
pub(crate) fn local_vtable<F, Fut, T>() -> &'static VTable
where
    F: FnOnce(&Processor, u8) -> Fut,
    Fut: Future<Output = T>,
{
    const {
        &VTable {
            poll: poll::<F, Fut, T>,
            drop_work: drop_work::<F, Fut, T>,
            drop_output: output_drop::<T>(),
            operation: std::any::type_name::<Fut>,
            sizes: OperationSizes::of::<F, Fut, T>(size_of::<Payload<F, Fut, T>>()),
            remote: RemoteVTable::NONE,
        }
    }
}

unsafe fn poll<F, Fut, T>(slot: Slot, processor: ProcessorRef<'_>) -> Step
where
    F: FnOnce(&Processor, u8) -> Fut,
    Fut: Future<Output = T>,
{
    let payload: *mut Payload<F, Fut, T> = slot.payload();
    if slot.state.get() == SlotState::Unstarted {
        // Until the future is written nothing in the slot is alive, even if `f` unwinds.
        slot.state.set(SlotState::Empty);
        // SAFETY: `Unstarted` said that the invocation is alive, and it is read once.
        let invocation = unsafe { ManuallyDrop::take(&mut (*payload).invocation) };
        let future = invocation(processor.get(), slot.stage.get());
        // SAFETY: nothing is alive in the payload.
        unsafe { (*payload).future = ManuallyDrop::new(future) };
        slot.state.set(SlotState::Started);
    }
    debug_assert_eq!(slot.state.get(), SlotState::Started);
    // Made here, where a future that does not use it costs nothing. Our wakers need no destructor, so its
    // call is avoided.
    let waker = ManuallyDrop::new(waker(slot.id.get()));
    let context = &mut Context::from_waker(&waker);
    // SAFETY: `Started` says that the future is alive; it stays where it is until it is dropped.
    let mut future = unsafe { Pin::new_unchecked(&mut *(*payload).future) };
    match future.as_mut().poll(context) {
        Poll::Pending => Step::Suspended,
        Poll::Ready(output) => {
            slot.state.set(SlotState::Empty);
            // SAFETY: the future is alive and dropped once; then the output takes its place.
            unsafe {
                ManuallyDrop::drop(&mut (*payload).future);
                (*payload).output = ManuallyDrop::new(output);
            }
            slot.state.set(SlotState::Done);
            if std::mem::needs_drop::<T>() { Step::Done } else { Step::DoneBare }
        }
    }
}

unsafe fn drop_work<F, Fut, T>(slot: Slot) {
    let payload: *mut Payload<F, Fut, T> = slot.payload();
    // SAFETY: the state says which member is alive, and is changed before the drop, which may unwind.
    unsafe {
        match slot.state.replace(SlotState::Empty) {
            SlotState::Unstarted => ManuallyDrop::drop(&mut (*payload).invocation),
            SlotState::Started => ManuallyDrop::drop(&mut (*payload).future),
            other => unreachable!("no work in a slot that is {other:?}"),
        }
    }
}
