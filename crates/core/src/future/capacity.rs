//! Waiting for the capacity of a stage: backpressure for producers (the feedback of 2002 §4.1.3: "a stage
//! informs other stages that it has sufficient tasks").
//!
//! The bound applies to the queue of one stage on one processor. An invocation beyond it is rejected before
//! any work is done for it. An operation that is re-enabled is never rejected, since it has been admitted
//! already. Queues become shorter only by cohorts, so waiters are woken at the end of a cohort.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::processor;
use crate::stage::key::Key;

/// Resolves when a stage has capacity: immediately while its queue is below the bound, otherwise when the
/// queue has fallen below half of the bound, so that a producer does not alternate with every operation.
///
/// This reserves nothing: all waiters are woken together.
///
/// Awaiting it outside a processor panics, as invoking does.
#[must_use = "futures do nothing unless awaited"]
pub struct WaitForCapacity {
    key: Key,
    waiting: bool,
}

impl WaitForCapacity {
    pub(crate) fn new(key: Key) -> Self {
        Self { key, waiting: false }
    }
}

impl Future for WaitForCapacity {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // Cloned before the borrow: cloning a foreign waker runs foreign code.
        let waker = context.waker().clone();
        processor::current(|processor| {
            let local = processor.stage(usize::from(processor.check(self.key)));
            if if self.waiting { local.has_recovered() } else { local.queue.has_room() } {
                return Poll::Ready(());
            }
            self.waiting = true;
            let mut waiting = local.runtime.capacity.waiting.borrow_mut();
            if !waiting.iter().any(|other| other.will_wake(&waker)) {
                waiting.push(waker);
            }
            Poll::Pending
        })
    }
}
