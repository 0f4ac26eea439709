//! Replies to callers on other processors (step 5 of [`crate::processor::remote::call`]).
//!
//! # Safety
//! The safety conditions of [`crate::operation::envelope`] apply. A [`RemoteReply`] owns the payload of the envelope,
//! whose invocation was moved out and whose result type is `T`. Only [`accept`](crate::processor::remote::accept)
//! creates one.

use std::future::Future;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::error::CallError;
use crate::mailbox::message::Message;
use crate::operation::envelope::Envelope;
use crate::operation::slot::Slot;
use crate::operation::state::SlotState;
use crate::processor;

/// The reply to a caller on another processor. It is sent with the result or, if the operation ends without one, when
/// it is dropped. It is empty if the caller is on this processor.
#[repr(transparent)]
pub(crate) struct RemoteReply<T> {
    envelope: Option<Slot>,
    result: PhantomData<T>,
}

impl<T> RemoteReply<T> {
    pub(crate) const EMPTY: Self = Self { envelope: None, result: PhantomData };

    /// The reply for an envelope that has arrived and has result type `T`.
    pub(super) fn new(envelope: Slot) -> Self {
        Self { envelope: Some(envelope), result: PhantomData }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.envelope.is_none()
    }

    pub(crate) fn send(&mut self, result: Result<T, CallError>) {
        let Some(slot) = self.envelope.take() else { return };
        // SAFETY: this processor owns the payload of the envelope. Its invocation was moved out, so nothing is alive
        // where this writes, and the payload has room for a result or an error (`Payload`).
        let caller = unsafe {
            let transit = &*slot.transit();
            match result {
                Ok(value) => {
                    slot.payload::<T>().write(value);
                    transit.contents.set(SlotState::Done);
                }
                Err(error) => {
                    slot.payload::<CallError>().write(error);
                    transit.contents.set(SlotState::Failed);
                }
            }
            usize::from(transit.caller)
        };
        processor::current(|processor| {
            if caller == processor.index() {
                processor.complete_remote(Envelope(slot))
            } else {
                processor.send(caller, Message::Reply(Envelope(slot)))
            }
        });
    }
}

impl<T> Drop for RemoteReply<T> {
    fn drop(&mut self) {
        self.send(Err(CallError::Cancelled));
    }
}

/// The operation of a remote call on the target. It replies with its result or its panic.
pub(super) struct RemoteFuture<Fut, T> {
    pub(super) future: Fut,
    pub(super) reply: RemoteReply<T>,
}

impl<Fut: Future<Output = T>, T> Future for RemoteFuture<Fut, T> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // SAFETY: `future` is pinned with `self` and never moved out; `reply` is not pinned.
        let Self { future, reply } = unsafe { self.get_unchecked_mut() };
        // SAFETY: `future` is pinned with `self`.
        let future = unsafe { Pin::new_unchecked(future) };
        match catch_unwind(AssertUnwindSafe(|| future.poll(context))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(value)) => {
                reply.send(Ok(value));
                Poll::Ready(())
            }
            Err(panic) => {
                let stage = reply.envelope.map(|slot| slot.stage.get());
                processor::current(|processor| {
                    reply.send(Err(processor.panic_error(stage.unwrap_or_default(), &*panic)));
                });
                resume_unwind(panic)
            }
        }
    }
}
