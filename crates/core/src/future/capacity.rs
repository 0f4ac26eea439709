//! Capacity and room: a stage that has enough says so, and whoever would bring more can wait
//! (the feedback of 2002 §4.1.3: "a stage informs other stages that it has sufficient tasks").
//!
//! The bound is on what is queued at one stage of one processor. An invocation beyond it is refused
//! before anything is done for it; an operation that is re-enabled never is, since it is already
//! inside. Queues become shorter by cohorts only, so the end of a cohort is where waiters are told.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::processor;
use crate::stage::key::Key;

/// Resolves when a stage has room: at once while it is below its capacity, and otherwise when its
/// queue has fallen under half of that, so that a producer does not stop and go with each operation.
///
/// It is an offer and no reservation: several that wait are all told.
///
/// Awaiting it outside of a processor panics, as invoking does.
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
        // Cloned before the borrow: a foreign waker is foreign code.
        let waker = context.waker().clone();
        processor::current(|processor| {
            processor.check(self.key);
            let local = processor.stage(usize::from(self.key.stage()));
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
