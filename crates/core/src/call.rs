//! Waiting for a child: the caller's end of an invocation.
//!
//! # Safety
//! A call owns the result side of one slot: the slot is not freed before the operation is over *and*
//! the call is gone, so the slot is still the same operation's whenever it is looked at. Slots are
//! touched only after `identity` has shown that this thread's current processor is the one that the
//! slot belongs to; a call that strays elsewhere, or outlives its processor, touches nothing.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::error::CallError;
use crate::operation::{HELD, Life, Slot};
use crate::processor::{self, Processor};
use crate::rendezvous::Waiter;

/// An invoked operation whose result can be awaited (WaitForChildren in tr2001 §5.2.1).
///
/// The operation was queued when it was invoked and runs whether or not the call is awaited, but
/// never before the caller has suspended or finished. Dropping the call leaves the operation running
/// as an orphan; its result is dropped.
///
/// # Errors
/// Resolves to a [`CallError`] when the operation panicked, was ended, or was refused.
#[must_use = "await the call for its result, or use `dispatch` for an operation nobody waits for"]
pub struct Call<T> {
    state: State,
    result: PhantomData<*mut T>,
}

enum State {
    Waiting { slot: Slot, identity: u32 },
    Refused(CallError),
    Finished,
}

impl<T> Call<T> {
    /// # Safety
    /// `slot` belongs to `processor`, was filled with result type `T`, is `HELD`, and no other call
    /// has it.
    pub(crate) unsafe fn new(processor: &Processor, slot: Slot) -> Self {
        let state = State::Waiting { slot, identity: processor.identity() };
        Self { state, result: PhantomData }
    }

    pub(crate) fn refused(error: CallError) -> Self {
        Self { state: State::Refused(error), result: PhantomData }
    }

    /// Lets the operation run for nobody.
    ///
    /// # Errors
    /// If it was refused.
    pub fn detach(mut self) -> Result<(), CallError> {
        match std::mem::replace(&mut self.state, State::Finished) {
            State::Refused(error) => Err(error),
            state => {
                self.state = state;
                Ok(())
            }
        }
    }

    /// Whether awaiting the call would return at once.
    pub fn is_finished(&self) -> bool {
        match &self.state {
            State::Waiting { slot, identity } => on(*identity, |_| is_over(*slot)).unwrap_or(true),
            _ => true,
        }
    }

    /// Says who is told when the operation is over. Nothing to tell if it already is.
    pub(crate) fn set_waiter(&self, waiter: Waiter) {
        if let State::Waiting { slot, identity } = &self.state {
            on(*identity, |_| slot.waiter.set(waiter));
        }
    }

    /// The result, if the operation is over. The call is then used up.
    pub(crate) fn take(&mut self) -> Option<Result<T, CallError>> {
        match std::mem::replace(&mut self.state, State::Finished) {
            State::Refused(error) => Some(Err(error)),
            State::Finished => panic!("a call is awaited once"),
            State::Waiting { slot, identity } => {
                let taken = on(identity, |processor| {
                    // SAFETY: the slot is this call's and was filled with `T`.
                    let result = unsafe { slot.take_result::<T>() };
                    if result.is_some() {
                        processor.free(slot);
                    }
                    result
                });
                match taken {
                    Some(None) => {
                        self.state = State::Waiting { slot, identity };
                        None
                    }
                    Some(result) => result,
                    // Its processor is gone, and the operation with it.
                    None => Some(Err(CallError::Ended)),
                }
            }
        }
    }
}

fn is_over(slot: Slot) -> bool {
    matches!(slot.life.get(), Life::Done | Life::Failed)
}

/// Runs `f` if the thread's current processor is the one with this identity.
fn on<R>(identity: u32, f: impl FnOnce(&Processor) -> R) -> Option<R> {
    processor::try_current(|processor| (processor.identity() == identity).then(|| f(processor)))
        .flatten()
}

impl<T> Unpin for Call<T> {}

impl<T> Future for Call<T> {
    type Output = Result<T, CallError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.take() {
            Some(result) => Poll::Ready(result),
            None => {
                let waiter = processor::current(|p| Waiter::new(p, context.waker()));
                self.set_waiter(waiter);
                Poll::Pending
            }
        }
    }
}

impl<T> Drop for Call<T> {
    fn drop(&mut self) {
        if let State::Waiting { slot, identity } = self.state {
            on(identity, |processor| {
                drop(slot.waiter.take());
                slot.clear(HELD);
                if is_over(slot) {
                    processor.free(slot);
                }
            });
        }
    }
}
