//! Waiting for the capacity of a stage: backpressure for producers (the feedback of 2002 §4.1.3: "a stage
//! informs other stages that it has sufficient tasks").
//!
//! The bound applies to the queue of one stage on one processor. An invocation beyond it is rejected before any work is
//! done for it. A woken operation is never rejected, because it has already been admitted. Only cohorts shorten a
//! queue, so waiters are woken at the end of a cohort.
//!
//! An invocation may also be rejected because the queue of another processor or the processor itself is full. No cohort
//! of this processor signals when that changes, so a waiter then suspends for one turn.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::panic::catch_panic;
use crate::processor;
use crate::processor::home::run_home;
use crate::processor::processor::Processor;
use crate::stage::key::Key;

/// Resolves when a stage has capacity: immediately if its queue is below the bound, otherwise when the queue has fallen
/// below half of the bound. The hysteresis lets a producer invoke many operations per wake-up.
///
/// The queue is this processor's. After a rejection because the queue of another processor or the processor itself
/// ([`Graph::max_operations`](crate::Graph::max_operations)) is full, the next wait suspends once and resolves when the
/// operation runs again. A producer that retries in a loop thus keeps its processor awake but lets other operations
/// run.
///
/// It reserves no capacity: all waiters are woken together.
///
/// Awaiting it outside a processor panics, as does invoking an operation there.
#[must_use = "futures do nothing unless awaited"]
pub struct WaitForCapacity {
    key: Key,
    /// The identity of the processor where this future waits, and its ticket there.
    waiting: Option<(u32, u64)>,
}

impl WaitForCapacity {
    pub(crate) fn new(key: Key) -> Self {
        Self { key, waiting: None }
    }
}

impl Future for WaitForCapacity {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // Cloned before the borrow: cloning a foreign waker runs foreign code.
        let waker = context.waker().clone();
        processor::current(|processor| {
            let local = processor.stage(usize::from(processor.check(self.key)));
            let capacity = &local.cold.capacity;
            let has_capacity = match self.waiting {
                Some(_) => local.has_recovered(),
                None if capacity.take_full_elsewhere() => {
                    waker.wake();
                    return Poll::Pending;
                }
                None => local.queue.has_room(),
            };
            if has_capacity {
                return Poll::Ready(());
            }
            let here = self.waiting.filter(|(identity, _)| *identity == processor.identity);
            let (_, ticket) = here.unwrap_or_else(|| (0, capacity.next_ticket()));
            self.unregister();
            self.waiting = Some((processor.identity, ticket));
            capacity.waiting.borrow_mut().push((ticket, waker));
            Poll::Pending
        })
    }
}

impl WaitForCapacity {
    /// Removes the waker of this future from the list of waiters.
    fn unregister(&mut self) {
        let (Some((identity, ticket)), key) = (self.waiting.take(), self.key) else { return };
        run_home(identity, move |p: &Processor| {
            let capacity = &p.stage(usize::from(p.check(key))).cold.capacity;
            let waker = capacity.remove(ticket);
            // Dropped after the borrow, because the destructor of a foreign waker is foreign code.
            catch_panic(|| drop(waker));
        });
    }
}

impl Drop for WaitForCapacity {
    fn drop(&mut self) {
        self.unregister();
    }
}
