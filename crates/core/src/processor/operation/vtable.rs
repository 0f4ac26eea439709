//! The generic code of an operation type: starting, polling and dropping an operation in its slot.
//!
//! # Safety
//! The safety conditions of [`crate::operation::slot`] apply. The functions here are called through the vtable that the
//! slot was filled with, so the types match. [`Header::state`](crate::operation::slot::Header) states which member of
//! the payload is alive.

use std::future::Future;
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::operation::processor_ref::ProcessorRef;
use crate::operation::slot::{NOT_SENT, OperationSizes, Payload, Slot, Step, VTable, output_drop};
use crate::operation::state::SlotState;
use crate::processor::operation::waker::waker;
use crate::processor::processor::Processor;

/// The code of an operation that has not started: a closure that takes the processor and the number of the operation's
/// stage, and returns the operation's future.
pub(crate) trait Invoke: 'static {
    type Future: Future<Output = Self::Result> + 'static;
    type Result: 'static;

    fn start(self, processor: &Processor, stage: u8) -> Self::Future;
}

impl<F, Fut, T> Invoke for F
where
    F: FnOnce(&Processor, u8) -> Fut + 'static,
    Fut: Future<Output = T> + 'static,
    T: 'static,
{
    type Future = Fut;
    type Result = T;

    #[inline(always)]
    fn start(self, processor: &Processor, stage: u8) -> Fut {
        self(processor, stage)
    }
}

/// The contents of an operation's slot.
pub(crate) type OperationPayload<F> = Payload<F, <F as Invoke>::Future, <F as Invoke>::Result>;

/// The vtable of local operations.
pub(crate) fn local_vtable<F: Invoke>() -> &'static VTable {
    const {
        &VTable {
            poll: poll::<F>,
            drop_work: drop_work::<F>,
            drop_output: output_drop::<F::Result>(),
            operation: std::any::type_name::<F::Future>,
            sizes: OperationSizes::of::<F, F::Future, F::Result>(size_of::<OperationPayload<F>>()),
            accept: NOT_SENT,
        }
    }
}

unsafe fn poll<F: Invoke>(slot: Slot, processor: ProcessorRef<'_>) -> Step {
    let payload: *mut OperationPayload<F> = slot.payload();
    if slot.state.get() == SlotState::Unstarted {
        // Nothing in the slot is alive until the future is written, even if the invocation unwinds.
        slot.state.set(SlotState::Empty);
        // SAFETY: the state was `Unstarted`, so the invocation is alive, and it is read once.
        let invocation = unsafe { ManuallyDrop::take(&mut (*payload).invocation) };
        let future = invocation.start(processor.get(), slot.stage.get());
        // SAFETY: nothing is alive in the payload.
        unsafe { (*payload).future = ManuallyDrop::new(future) };
        slot.state.set(SlotState::Started);
    }
    debug_assert_eq!(slot.state.get(), SlotState::Started);
    // Created here because the compiler then removes it for futures that do not use it. The waker of an operation needs
    // no destructor, so the call of `drop` is avoided.
    let waker = ManuallyDrop::new(waker(slot.id.get()));
    let context = &mut Context::from_waker(&waker);
    // SAFETY: the state is `Started`, so the future is alive. It is not moved until it is dropped.
    let mut future = unsafe { Pin::new_unchecked(&mut *(*payload).future) };
    match future.as_mut().poll(context) {
        Poll::Pending => Step::Suspended,
        Poll::Ready(output) => {
            slot.state.set(SlotState::Empty);
            // SAFETY: the future is alive and dropped once. The output then takes its place.
            unsafe {
                ManuallyDrop::drop(&mut (*payload).future);
                (*payload).output = ManuallyDrop::new(output);
            }
            slot.state.set(SlotState::Done);
            if std::mem::needs_drop::<F::Result>() { Step::Done } else { Step::DoneBare }
        }
    }
}

unsafe fn drop_work<F: Invoke>(slot: Slot) {
    let payload: *mut OperationPayload<F> = slot.payload();
    // SAFETY: the state says which member is alive. It changes before the drop, which may unwind.
    unsafe {
        match slot.state.replace(SlotState::Empty) {
            SlotState::Unstarted => ManuallyDrop::drop(&mut (*payload).invocation),
            SlotState::Started => ManuallyDrop::drop(&mut (*payload).future),
            other => unreachable!("no work in a slot that is {other:?}"),
        }
    }
}
