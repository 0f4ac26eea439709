//! Asynchronous cohort operations that run one cohort at a time, for example for group commit.
//!
//! While a handler awaits a write and its sync, the next cohort could begin and their writes would overlap. The stage
//! is therefore *busy* from the moment when a cohort's items are taken until its handler has ended. The processor does
//! not visit a busy stage. New items stay in the queue, up to its capacity, and form the next cohort.
//!
//! The handler's future is an operation of another stage, because this stage's queue holds items. When that operation
//! ends, by return, panic or cancellation, it drops a [`Serving`], which returns the state and marks the stage as
//! ready.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;

use crate::error::CallError;
use crate::gate::OperationName;
use crate::handle::local::SharedStage;
use crate::handle::policy::cohort::entry::Cohort;
use crate::handle::policy::cohort::items::ItemHandler;
use crate::handle::policy::cohort::stage::{CohortStage, PartitionedCohortStage};
use crate::handle::stage::Stage;
use crate::handle::stage_options::StageOptions;
use crate::processor;
use crate::processor::processor::Processor;
use crate::stage::cohort_handler::{Lost, SerialCohort};
use crate::stage::declaration::StageParts;
use crate::stage::key::CallSite;
use crate::state::exclusive::Shared;

/// A stage's state on one processor while no handler uses it.
struct IdleState<S> {
    stage: u8,
    state: RefCell<Option<S>>,
    cohort: Rc<SerialCohort>,
}

/// A cohort in progress, with the state.
struct Serving<S> {
    state: Option<S>,
    idle: Rc<IdleState<S>>,
}

impl<S> Serving<S> {
    fn begin(idle: &Rc<IdleState<S>>) -> Self {
        idle.cohort.is_busy.set(true);
        Self { state: idle.state.borrow_mut().take(), idle: idle.clone() }
    }
}

impl<S> Drop for Serving<S> {
    fn drop(&mut self) {
        *self.idle.state.borrow_mut() = self.state.take();
        self.idle.cohort.is_busy.set(false);
        self.idle.cohort.handler.set(None);
        processor::try_current(|p| p.stages.set_ready(self.idle.stage.into()));
    }
}

impl StageOptions<'_> {
    /// A stage of cohort operations with an asynchronous handler that serves one cohort at a time. Later items wait in
    /// the stage's queue, up to its [capacity](Self::capacity), and form the next cohort. Use it for group commit.
    ///
    /// Cohorts and their items keep the order of invocation, even with [`lifo`](Self::lifo). The handler runs as an
    /// operation of `runner` and has exclusive access to the state until it returns. Items without a reply fail with
    /// [`CallError::ReplyDropped`]. If the handler panics, they fail with [`CallError::Panicked`], the state stays as
    /// the panic left it, and the next cohort begins. A program that drains completes the current cohort and the
    /// waiting items. An item whose session has ended fails with [`CallError::Cancelled`]; the handler continues. If
    /// the handler's operation is rejected because of [`Graph::max_operations`](crate::Graph::max_operations), all
    /// calls of the cohort fail with [`CallError::ReplyDropped`].
    ///
    /// ```
    /// use phalanx_core::{Cohort, Graph, sleep};
    /// use std::time::Duration;
    ///
    /// let mut graph = Graph::new();
    /// let commit = graph.shared("commit", ());
    /// let journal = graph.stage("journal").max_cohort(64).serial_cohort(
    ///     |_processor| Vec::<u32>::new(),
    ///     commit,
    ///     async |log: &mut Vec<u32>, mut cohort: Cohort<u32, usize>| {
    ///         sleep(Duration::from_millis(5)).await; // a real one awaits the write and its sync
    ///         for entry in cohort.iter_mut() {
    ///             log.push(entry.item);
    ///             entry.reply(log.len());
    ///         }
    ///     },
    /// );
    /// # let _ = journal;
    /// ```
    #[track_caller]
    pub fn serial_cohort<S: 'static, R: Send + Sync + 'static, I: 'static, O: 'static>(
        mut self,
        make: impl Fn(usize) -> S + Send + Sync + 'static,
        runner: SharedStage<R>,
        handler: impl AsyncFn(&mut S, Cohort<I, O>) + Send + Sync + 'static,
    ) -> CohortStage<I, O> {
        self.declaration.lifo = false;
        self.declaration.runner = Some(runner.key().stage());
        let (stage, site) = (self.number(), Location::caller());
        let call_site = CallSite { key: runner.key(), site };
        let (make, handler) = (Arc::new(make), Arc::new(handler));
        let key = self.declare(Box::new(move |processor, _| {
            let in_progress = Rc::new(SerialCohort::default());
            let state = RefCell::new(Some(make(processor)));
            let idle = Rc::new(IdleState { stage, state, cohort: in_progress.clone() });
            let handler = handler.clone();
            let begin = move |cohort: &mut Cohort<I, O>| {
                let (mut serving, handler) = (Serving::begin(&idle), handler.clone());
                let cohort = cohort.take_all();
                let operation = move |_: Shared<R>| async move {
                    serving.idle.cohort.handler.set(OperationName::current());
                    let Some(state) = &mut serving.state else { return };
                    let served = handler(state, cohort);
                    answering_for(stage, served).await;
                };
                // A rejected dispatch drops the cohort, which answers its callers.
                let _ = runner.dispatch_from(call_site, operation);
            };
            let handler = ItemHandler::new(begin).one_after_the_other(in_progress);
            StageParts { state: Rc::new(()), gate: None, handler: Some(Rc::new(handler)) }
        }));
        Stage::new(key)
    }

    /// Like [`serial_cohort`](Self::serial_cohort), but for state that is partitioned by key. An item has a key and
    /// joins a cohort on the processor that owns the key. Keys do not move.
    #[track_caller]
    pub fn partitioned_serial_cohort<
        S: 'static,
        R: Send + Sync + 'static,
        I: Send + 'static,
        O: Send + 'static,
    >(
        self,
        make: impl Fn(usize) -> S + Send + Sync + 'static,
        runner: SharedStage<R>,
        handler: impl AsyncFn(&mut S, Cohort<I, O>) + Send + Sync + 'static,
    ) -> PartitionedCohortStage<I, O> {
        Stage::new(self.serial_cohort(make, runner, handler).key())
    }
}

/// Awaits the handler's future, which owns replies of `stage`.
async fn answering_for(stage: u8, served: impl Future<Output = ()>) {
    let mut served = pin!(served);
    let poll = poll_fn(|context| {
        processor::current(|p| p.answering_for(stage, || served.as_mut().poll(context)))
    });
    poll.await;
}

impl Processor {
    /// Runs user code that owns replies of `stage`. If the code panics, the replies that are dropped fail with that
    /// panic.
    fn answering_for<T>(&self, stage: u8, poll: impl FnOnce() -> T) -> T {
        self.scratch.replies.begin_detached();
        let polled = catch_unwind(AssertUnwindSafe(poll));
        let (_, lost) = self.scratch.replies.end();
        let error = match &polled {
            Ok(_) => CallError::ReplyDropped { stage: self.stage_name(stage) },
            Err(panic) => self.panic_error(stage, &**panic),
        };
        for Lost { slot, serial, .. } in lost {
            self.fail_suspended(slot, serial, error.clone());
        }
        polled.unwrap_or_else(|panic| resume_unwind(panic))
    }
}
