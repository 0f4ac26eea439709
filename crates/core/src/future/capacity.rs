//! Capacity and room: a stage that has enough says so, and whoever would bring more can wait
//! (the feedback of 2002 §4.1.3: "a stage informs other stages that it has sufficient tasks").
//!
//! The bound is on what is queued at one stage of one processor. An invocation beyond it is refused
//! before anything is done for it; an operation that is re-enabled never is, since it is already
//! inside. Queues become shorter by cohorts only, so the end of a cohort is where waiters are told.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use crate::error::Refused;
use crate::handle::graph::StageOptions;
use crate::handle::handles::Key;
use crate::processor::notify::contain;
use crate::processor::processor::{self, LocalStage, Processor};

/// A stage's bound on one processor, and who waits for room.
pub(crate) struct Capacity {
    /// Without one: the greatest number.
    pub(crate) bound: usize,
    waiting: RefCell<Vec<Waker>>,
    /// What this processor has in its outbox for the stage on others.
    pub(crate) outbound: std::cell::Cell<usize>,
}

impl Capacity {
    pub(crate) fn new(bound: usize) -> Self {
        Self { bound, waiting: RefCell::default(), outbound: std::cell::Cell::new(0) }
    }

    /// Gives back who waits, at the processor's end.
    pub(crate) fn clear(&self) -> Vec<Waker> {
        self.waiting.take()
    }

    pub(crate) fn is_some(&self) -> bool {
        self.bound < usize::MAX
    }
}

impl StageOptions<'_> {
    /// The most operations that may be queued at the stage on one processor. An invocation beyond
    /// it is refused with [`CallError::Full`](crate::CallError::Full), which names the stage.
    /// Without it only [`Graph::max_operations`](crate::Graph::max_operations) bounds the queue.
    ///
    /// Operations that wait for something else (I/O, children, time) are not queued and not
    /// counted; when they are re-enabled they are let in whatever the bound. What other processors
    /// have sent waits apart and is bounded apart, by the same number or 1024, whichever is less.
    ///
    /// A producer that must not lose anything asks the stage's handle for room first:
    /// [`has_room`](crate::SharedStage::has_room), [`room`](crate::SharedStage::room).
    ///
    /// # Panics
    /// If `count` is zero.
    #[must_use]
    pub fn capacity(mut self, count: usize) -> Self {
        assert!(count > 0, "a stage has room for at least one operation");
        self.capacity = count;
        self
    }
}

impl LocalStage {
    /// Under half of its bound.
    fn has_recovered(&self) -> bool {
        self.queue.len() < self.rules.capacity.bound.div_ceil(2)
    }
}

impl Processor {
    pub(crate) fn has_room(&self, key: Key) -> bool {
        self.check(key);
        self.stage(usize::from(key.stage())).queue.has_room()
    }

    /// The cohort of a stage with a bound is over: tells those who wait for room.
    #[cold]
    pub(crate) fn give_room(&self, local: &LocalStage) {
        if local.has_recovered() {
            let waiting = local.rules.capacity.waiting.take();
            waiting.into_iter().for_each(|waker| contain(|| waker.wake()));
        }
    }

    /// Counts a refusal at a stage that is full. What was to be invoked is dropped, contained as in
    /// [`refuse`](Self::refuse).
    #[cold]
    #[inline(never)]
    pub(crate) fn refuse_at_stage<F>(&self, stage: u8, invocation: F) -> Refused {
        self.stage_counters(stage).refused.add(1);
        let bound = self.stages[usize::from(stage)].rules.capacity.bound;
        contain(|| drop(invocation));
        Refused::stage_full(stage, bound)
    }
}

/// Resolves when a stage has room: at once while it is below its capacity, and otherwise when its
/// queue has fallen under half of that, so that a producer does not stop and go with each operation.
///
/// It is an offer and no reservation: several that wait are all told.
///
/// Awaiting it outside of a processor panics, as invoking does.
#[must_use = "futures do nothing unless awaited"]
pub struct Room {
    key: Key,
    waiting: bool,
}

impl Room {
    pub(crate) fn new(key: Key) -> Self {
        Self { key, waiting: false }
    }
}

impl Future for Room {
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
            let mut waiting = local.rules.capacity.waiting.borrow_mut();
            if !waiting.iter().any(|other| other.will_wake(&waker)) {
                waiting.push(waker);
            }
            Poll::Pending
        })
    }
}
