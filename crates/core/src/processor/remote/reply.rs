//! Replies to callers on other processors (step 5 of [`crate::processor::remote::call`]).
//!
//! # Safety
//! The safety conditions of [`crate::operation::envelope`]. A [`RemoteReply`] owns the payload of the
//! envelope, whose invocation was moved out and whose result type is `T`. Only
//! [`accept`](crate::processor::remote::accept) makes one.

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

/// The reply to a caller on another processor. It is sent with the result or, if the operation ends without a
/// result, when it is dropped. Empty if no reply is owed.
#[repr(transparent)]
pub(crate) struct RemoteReply<T> {
    envelope: Option<Slot>,
    result: PhantomData<T>,
}

impl<T> RemoteReply<T> {
    pub(crate) const EMPTY: Self = Self { envelope: None, result: PhantomData };

    /// The reply of an envelope that has arrived, and whose result type is `T`.
    pub(super) fn new(envelope: Slot) -> Self {
        Self { envelope: Some(envelope), result: PhantomData }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.envelope.is_none()
    }

    pub(crate) fn send(&mut self, result: Result<T, CallError>) {
        let Some(slot) = self.envelope.take() else { return };
        // SAFETY: the envelope is away from home and here; its invocation was moved out, so nothing
        // is alive where this writes; and there is room for either (`Payload`).
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

/// A caller's operation on the target: replies with its result, or with its panic.
pub(super) struct RemoteFuture<Fut, T> {
    pub(super) future: Fut,
    pub(super) reply: RemoteReply<T>,
}

impl<Fut: Future<Output = T>, T> Future for RemoteFuture<Fut, T> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // SAFETY: `future` is pinned with `self` and never moved out; `reply` is not pinned.
        let Self { future, reply } = unsafe { self.get_unchecked_mut() };
        // SAFETY: as above.
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
