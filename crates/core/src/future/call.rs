//! The caller's side of an invocation: waiting for a child operation.
//!
//! # Safety
//! A call owns the result side of one slot. The slot is freed only when the operation is over *and* the call is gone,
//! so the slot still belongs to the same operation whenever the call accesses it. A slot is accessed only after
//! `identity` has shown that this thread's current processor owns it. A call on another thread, or one that outlives
//! its processor, does not access the slot. It sends the slot to its processor ([`UnawaitedSlot`]) instead, and the
//! slot stays reserved until that command arrives.
//!
//! Therefore a call is `Send`. A cancellation from another thread reads the slot's index and serial, which no thread
//! writes while the call exists. The registry of processors keeps the slot's memory during the read.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use crate::error::{CallError, Rejection};
use crate::mailbox::registry::while_registered;
use crate::operation::slot::Slot;
use crate::operation::state::{AWAITED, SlotState};
use crate::panic::catch_panic;
use crate::processor;
use crate::processor::home::send_home;
use crate::processor::operation::invoke::Invoked;
use crate::processor::operation::waker;
use crate::processor::processor::Processor;
use crate::program::processor_id::ProcessorId;

/// An invoked operation, whose result can be awaited (WaitForChildren in tr2001 §5.2.1).
///
/// The operation is queued when it is invoked and runs whether or not the call is awaited, but never before
/// the caller has suspended or finished. If its stage is [direct](crate::StageOptions::direct), it runs
/// inline when the caller awaits it. Dropping the call leaves the operation running as an orphan; its result
/// is dropped.
///
/// A call belongs to the processor that created it. If it is awaited on another one, it resolves to
/// [`CallError::WrongProcessor`], or to [`CallError::Cancelled`] if its processor has ended. It can be dropped
/// anywhere.
///
/// A call is `Send` if its result is, so that a future that contains it can be `Send` too, such as a handler of an HTTP
/// framework.
///
/// ```
/// use phalanx_core::SharedStage;
///
/// /// A future that is `Send`.
/// fn handler(stage: SharedStage<u32>) -> impl Future<Output = u32> + Send {
///     async move { stage.call(|state| async move { *state + 1 }).await.unwrap_or_default() }
/// }
/// # let _ = handler;
/// ```
///
/// ```compile_fail
/// fn leaves_its_thread(call: phalanx_core::Call<std::rc::Rc<u32>>) {
///     std::thread::spawn(move || drop(call)); // the result is not `Send`
/// }
/// ```
///
/// # Errors
/// Resolves to a [`CallError`] if the operation panicked, was cancelled, or was rejected.
///
/// # Panics
/// If it is polled again after it has resolved.
#[must_use = "await the call for its result, or use `dispatch` if the result is not needed"]
pub struct Call<T> {
    state: State,
    result: PhantomData<*mut T>,
}

/// Two words, because calls are moved into futures.
#[derive(Clone, Copy)]
enum State {
    Waiting { slot: Slot, identity: u32 },
    Rejected { rejection: Rejection, identity: u32 },
    Finished,
}

impl<T> Call<T> {
    #[inline(always)]
    pub(crate) fn new(processor: &Processor, invoked: Invoked<T>) -> Self {
        let identity = processor.identity;
        let state = match invoked.slot {
            Ok(slot) => State::Waiting { slot, identity },
            Err(rejection) => State::Rejected { rejection, identity },
        };
        Self { state, result: PhantomData }
    }

    /// Drops the call. The operation runs as an orphan.
    ///
    /// # Errors
    /// If the invocation was rejected.
    pub fn detach(mut self) -> Result<(), CallError> {
        match self.state {
            State::Rejected { .. } => Err(self.take_rejection()),
            _ => Ok(()),
        }
    }

    /// Cancels the operation on whichever processor it runs: immediately if it is suspended, otherwise before it starts
    /// or when it next suspends. Another processor cancels it when it receives the command. Awaiting the call then
    /// returns [`CallError::Cancelled`], or the result if the operation completed first. Operations that the cancelled
    /// operation has invoked continue as orphans; to cancel a whole tree of operations, run it in a
    /// [`Session`](crate::Session).
    pub fn cancel(&self) {
        if let State::Waiting { slot, identity } = self.state
            && processor::on(identity, |processor| processor.cancel_child(slot)).is_none()
        {
            cancel_from_elsewhere(slot, identity);
        }
    }

    /// Whether awaiting the call would return immediately.
    pub fn is_finished(&self) -> bool {
        match self.state {
            State::Waiting { slot, identity } => {
                processor::on(identity, |_| is_over(slot)).unwrap_or(true)
            }
            _ => true,
        }
    }

    /// Sets the waker to wake when the operation is over. Has no effect if the operation is already over.
    pub(crate) fn set_waiter(&self, waiter: Waker) {
        if let State::Waiting { slot, identity } = self.state {
            processor::on(identity, |_| slot.waiter.set(Some(waiter)));
        }
    }

    /// Takes the result, if the operation is over. The call is then finished.
    #[inline(always)]
    pub(crate) fn take(&mut self) -> Option<Result<T, CallError>> {
        let State::Waiting { slot, identity } = self.state else {
            return Some(Err(self.take_rejection()));
        };
        let output = processor::on(identity, |processor| {
            // SAFETY: the slot belongs to this call and was filled with result type `T`.
            let result = unsafe { slot.take_result::<T>() }?;
            processor.slab().release(slot);
            Some(result)
        });
        if let Some(None) = output {
            return None;
        }
        self.state = State::Finished;
        // Without its processor, the operation has been dropped or is unreachable.
        Some(output.flatten().unwrap_or_else(|| Err(release_elsewhere(slot, identity))))
    }

    /// Polls with a waker that is not that of an operation of this processor. Cloning a foreign waker runs foreign
    /// code, so the clone comes before the last check for the result.
    #[cold]
    fn poll_for_another(&mut self, context: &mut Context<'_>) -> Poll<Result<T, CallError>> {
        let waiter = context.waker().clone();
        if let Some(result) = self.take() {
            return Poll::Ready(result);
        }
        self.set_waiter(waiter);
        Poll::Pending
    }

    #[cold]
    fn take_rejection(&mut self) -> CallError {
        match std::mem::replace(&mut self.state, State::Finished) {
            State::Rejected { rejection, identity } => {
                processor::on(identity, |p| p.rejection(rejection))
                    .unwrap_or_else(|| unreachable_call(identity))
            }
            _ => panic!("a call was polled after it had completed"),
        }
    }
}

#[inline]
fn is_over(slot: Slot) -> bool {
    matches!(slot.state.get(), SlotState::Done | SlotState::Failed)
}

impl<T> Unpin for Call<T> {}

// SAFETY: on another thread, a call accesses only parts of its slot that no thread writes (top of the file).
unsafe impl<T: Send> Send for Call<T> {}

impl<T> Future for Call<T> {
    type Output = Result<T, CallError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let State::Waiting { slot, identity } = self.state {
            processor::on(identity, |p| {
                if p.is_direct(slot) {
                    p.try_run_inline(slot)
                }
            });
        }
        if let Some(result) = self.take() {
            return Poll::Ready(result);
        }
        match waker::copy_own(context.waker()) {
            Some(waiter) => self.set_waiter(waiter),
            None => return self.poll_for_another(context),
        }
        Poll::Pending
    }
}

impl<T> Drop for Call<T> {
    #[inline]
    fn drop(&mut self) {
        if let State::Waiting { slot, identity } = self.state {
            abandon(slot, identity);
        }
    }
}

/// Abandons the result of the operation in `slot`.
fn abandon(slot: Slot, identity: u32) {
    if processor::on(identity, |processor| processor.abandon(slot)).is_none() {
        abandon_from_elsewhere(slot, identity);
    }
}

/// The error of a call that is awaited away from its processor.
#[cold]
fn unreachable_call(identity: u32) -> CallError {
    if ProcessorId(identity).is_alive() { CallError::WrongProcessor } else { CallError::Cancelled }
}

/// Releases the slot of a call that is awaited away from its processor, and returns the error.
#[cold]
#[inline(never)]
fn release_elsewhere(slot: Slot, identity: u32) -> CallError {
    let error = unreachable_call(identity);
    abandon_from_elsewhere(slot, identity);
    error
}

/// The slot of a call that was dropped away from its processor, on its way back there.
struct UnawaitedSlot(Slot);

// SAFETY: the slot is accessed only on its processor, while that exists (`send_home`). The call is gone, and the
// `AWAITED` flag keeps the slot allocated until then.
unsafe impl Send for UnawaitedSlot {}

impl UnawaitedSlot {
    fn into_slot(self) -> Slot {
        self.0
    }
}

/// Cancels the operation of an existing call while the call's processor is not the current one of this thread.
#[cold]
#[inline(never)]
fn cancel_from_elsewhere(slot: Slot, identity: u32) {
    // When the command arrives, the call may be gone and its slot reused, so it names the operation by its serial.
    let name = while_registered(identity, |_| (slot.id.get().index(), slot.serial.get()));
    if let Some((index, serial)) = name {
        send_home(identity, move |processor| processor.cancel_child_at(index, serial));
    }
}

#[cold]
#[inline(never)]
fn abandon_from_elsewhere(slot: Slot, identity: u32) {
    let unawaited = UnawaitedSlot(slot);
    send_home(identity, move |processor| processor.abandon(unawaited.into_slot()));
}

impl Processor {
    /// Releases the slot of a dropped call.
    fn abandon(&self, slot: Slot) {
        // Update the slot before running foreign destructors.
        let waiter = slot.waiter.take();
        slot.clear(AWAITED);
        if is_over(slot) {
            self.free(slot);
        }
        catch_panic(|| drop(waiter));
    }
}

const _: () = assert!(size_of::<Call<()>>() == 16, "calls are moved about in futures");
