//! `run`: a call that is awaited immediately, which allows the compiler to optimise caller and callee together.
//!
//! If the stage is direct, the child becomes part of its caller's future. It needs no slot, queue or wake-up, and the
//! compiler may inline it. It remains part of the caller when it suspends, so observers of the processor see the
//! caller. If the stage is not direct, `run` is an ordinary call.
//!
//! # Safety
//! [`State`] says which member of a [`Run`]'s [`Storage`] is alive. It changes before a member is taken out or dropped,
//! and after one is stored. A polled `Run` is pinned; the operation's future is created, polled and dropped in place.

use std::any::{Any, type_name};
use std::future::{Future, poll_fn};
use std::marker::PhantomPinned;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use crate::error::CallError;
use crate::future::call::Call;
use crate::future::cancel_on_drop::CancelOnDrop;
use crate::handle::local::invocation;
use crate::handle::stage::Stage;
use crate::metrics::type_name::display_name;
use crate::operation::slot::Site;
use crate::operation::state::NO_SESSION;
use crate::panic::discard_panic;
use crate::processor;
use crate::processor::processor::Processor;
use crate::stage::key::{CallSite, Key};
use crate::state::exclusive::Shared;
use crate::state::partition::Partition;

impl<S: Send + Sync + 'static> Stage<Shared<S>> {
    /// Like [`call`](Self::call) followed by `await`, but cheaper. Nothing happens before the future is awaited. If the
    /// stage is [direct](crate::StageOptions::direct), the operation then runs as part of the caller, like an `async`
    /// function.
    ///
    /// A recursive operation must use `call` or a box, because a future cannot contain itself. Dropping the future ends
    /// the operation: if it is part of the caller, it is dropped; otherwise it is cancelled.
    ///
    /// ```
    /// # use phalanx_core::{CallError, SharedStage};
    /// async fn handle(parse: SharedStage<()>, line: String) -> Result<usize, CallError> {
    ///     parse.run(move |_| async move { line.trim().len() }).await
    /// }
    /// ```
    ///
    /// # Errors
    /// The errors of [`Call`](crate::Call).
    #[inline(always)]
    #[track_caller]
    pub fn run<F, Fut, T>(
        &self,
        operation: F,
    ) -> impl Future<Output = Result<T, CallError>> + use<S, F, Fut, T>
    where
        F: FnOnce(Shared<S>) -> Fut + 'static,
        Fut: Future<Output = T> + 'static,
        T: 'static,
    {
        Run::new(self.key().call_site(), invocation::<Shared<S>, _, _>(operation))
    }
}

impl<S: 'static> Stage<Partition<S>> {
    /// Like [`SharedStage::run`](crate::SharedStage::run), but on the partition of `key`. The operation is part of the
    /// caller if the stage is direct and this processor owns the partition. Otherwise it is an ordinary operation that
    /// is cancelled when the future is dropped.
    ///
    /// # Errors
    /// The errors of [`Call`](crate::Call).
    #[inline(always)]
    #[track_caller]
    pub fn run<F, Fut, T>(
        &self,
        key: u64,
        operation: F,
    ) -> impl Future<Output = Result<T, CallError>> + use<S, F, Fut, T>
    where
        F: FnOnce(crate::state::partition::Partition<S>) -> Fut + Send + 'static,
        Fut: Future<Output = T> + 'static,
        T: Send + 'static,
    {
        let (stage, call_site) = (*self, self.key().call_site());
        async move {
            let part = processor::current(|p| {
                let here = stage.partitions(p);
                let part = here
                    .access(here.of_key(key))
                    .filter(|_| p.stages.inline.is_fused(stage.key().stage()))?;
                p.may_fuse(stage.key()).map(|_| part)
            });
            let Some(part) = part else {
                return CancelOnDrop(stage.call_from(call_site, key, operation)).await;
            };
            run_fused(call_site, async move { operation(part).await }).await
        }
    }

    /// Runs `operation` immediately on the partition of `key`, as part of the calling operation, if this processor owns
    /// the partition and the partition is not moving. Otherwise it runs nothing and returns `None`; use
    /// [`call`](Self::call) instead.
    ///
    /// Use it for very short work, such as a table lookup, where queueing costs more than the work. It runs before the
    /// queued operations of the partition and counts as an operation of the stage. A panic in it propagates to the
    /// caller.
    ///
    /// ```
    /// # use phalanx_core::PartitionedStage;
    /// # use std::collections::HashMap;
    /// async fn find(table: PartitionedStage<HashMap<u64, u32>>, key: u64) -> Option<u32> {
    ///     if let Some(found) = table.try_with_local(key, |part| part.get(&key).copied()) {
    ///         return found;
    ///     }
    ///     let found = table.call(key, move |part| async move { part.with(|p| p.get(&key).copied()) });
    ///     found.await.ok()?
    /// }
    /// ```
    ///
    /// # Panics
    /// If called outside a processor, or on a partition that the caller is already accessing through this method or
    /// [`Partition::with`](crate::Partition::with).
    #[inline(always)]
    pub fn try_with_local<R>(&self, key: u64, operation: impl FnOnce(&mut S) -> R) -> Option<R> {
        processor::current(|p| self.try_at(p, self.partitions(p).of_key(key), operation))
    }

    /// Like [`try_with_local`](Self::try_with_local), but on the partition numbered `partition`.
    ///
    /// # Panics
    /// Like [`try_with_local`](Self::try_with_local), and if there is no such partition.
    #[inline(always)]
    pub fn try_with_partition<R>(
        &self,
        partition: usize,
        operation: impl FnOnce(&mut S) -> R,
    ) -> Option<R> {
        processor::current(|p| self.try_at(p, partition, operation))
    }

    #[inline(always)]
    fn try_at<R>(
        &self,
        p: &Processor,
        partition: usize,
        operation: impl FnOnce(&mut S) -> R,
    ) -> Option<R> {
        let result = self.partitions(p).try_with_local(partition, operation)?;
        p.count_inline(self.key().stage());
        Some(result)
    }
}

/// The future of [`SharedStage::run`](crate::SharedStage::run).
struct Run<F, Fut, T> {
    call_site: CallSite,
    state: State,
    storage: Storage<F, Fut, T>,
    _pinned: PhantomPinned,
}

/// The live member of the storage.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// The invocation, which has not been awaited yet.
    Unstarted,
    /// The future, as part of the caller.
    Fused,
    Called,
    /// Nothing.
    Done,
}

/// A union with a separate state instead of an enum. The compiler merges a read of an enum's tag with neighbouring
/// bytes into one wide load, which would stall on the narrower stores before it.
union Storage<F, Fut, T> {
    invocation: ManuallyDrop<F>,
    future: ManuallyDrop<Fut>,
    call: ManuallyDrop<CancelOnDrop<T>>,
}

impl<F, Fut, T> Run<F, Fut, T> {
    #[inline(always)]
    fn new(call_site: CallSite, invocation: F) -> Self {
        let storage = Storage { invocation: ManuallyDrop::new(invocation) };
        Self { call_site, state: State::Unstarted, storage, _pinned: PhantomPinned }
    }

    #[cold]
    #[inline(never)]
    fn drop_member(&mut self) {
        // SAFETY: the state says which member is alive, and the member is dropped once.
        unsafe {
            match std::mem::replace(&mut self.state, State::Done) {
                State::Unstarted => ManuallyDrop::drop(&mut self.storage.invocation),
                State::Fused => ManuallyDrop::drop(&mut self.storage.future),
                State::Called => ManuallyDrop::drop(&mut self.storage.call),
                State::Done => (),
            }
        }
    }
}

impl<F, Fut, T> Drop for Run<F, Fut, T> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.state != State::Done {
            self.drop_member();
        }
    }
}

impl<F, Fut, T> Future for Run<F, Fut, T>
where
    F: FnOnce(&Processor, u8) -> Fut + 'static,
    Fut: Future<Output = T> + 'static,
    T: 'static,
{
    type Output = Result<T, CallError>;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: only the invocation is moved out, and it is not pinned.
        let this = unsafe { self.get_unchecked_mut() };
        let call_site = this.call_site;
        processor::current(|processor| {
            if this.state == State::Unstarted {
                this.state = State::Done;
                // SAFETY: the state was `Unstarted`, so the invocation is alive, and it is read once.
                let invocation = unsafe { ManuallyDrop::take(&mut this.storage.invocation) };
                if let Some(stage) = processor.may_fuse(call_site.key) {
                    return processor.poll_fused::<Fut, _, _>(stage, call_site.site, || {
                        let future = invocation(processor, stage);
                        this.storage.future = ManuallyDrop::new(future);
                        this.state = State::Fused;
                        this.poll_fused(context)
                    });
                }
                let call = Call::new(processor, processor.call(call_site, invocation));
                this.storage.call = ManuallyDrop::new(CancelOnDrop(call));
                this.state = State::Called;
            }
            match this.state {
                State::Fused => {
                    // The future may have moved to another processor since its first poll.
                    let stage = processor.check(call_site.key);
                    processor
                        .poll_fused::<Fut, _, _>(stage, call_site.site, || this.poll_fused(context))
                }
                _ => this.poll_call(context),
            }
        })
    }
}

impl<F, Fut: Future<Output = T>, T> Run<F, Fut, T> {
    #[inline(never)]
    fn poll_call(&mut self, context: &mut Context<'_>) -> Poll<Result<T, CallError>> {
        assert!(self.state == State::Called, "a future of `run` was polled after it had completed");
        // SAFETY: the state is `Called`, so the call is alive.
        Pin::new(unsafe { &mut *self.storage.call }).poll(context)
    }

    /// Polls the future, and drops it as soon as it is ready. The state must be `Fused`.
    #[inline(always)]
    fn poll_fused(&mut self, context: &mut Context<'_>) -> Poll<T> {
        // SAFETY: the state is `Fused`, so the future is alive. It never moves, because `Run` is pinned.
        let polled = unsafe { Pin::new_unchecked(&mut *self.storage.future) }.poll(context);
        if polled.is_ready() {
            self.state = State::Done;
            // SAFETY: the future is alive and is not used again.
            unsafe { ManuallyDrop::drop(&mut self.storage.future) };
        }
        polled
    }
}

/// Runs an operation of a stage as part of the operation that awaits this.
async fn run_fused<Fut: Future>(
    call_site: CallSite,
    operation: Fut,
) -> Result<Fut::Output, CallError> {
    let mut operation = pin!(operation);
    poll_fn(|context: &mut Context<'_>| {
        processor::current(|p| {
            let stage = p.check(call_site.key);
            p.poll_fused::<Fut, _, _>(stage, call_site.site, || operation.as_mut().poll(context))
        })
    })
    .await
}

impl Processor {
    /// The stage's number, if its operation may become part of the running operation.
    #[inline(always)]
    fn may_fuse(&self, key: Key) -> Option<u8> {
        let stage = self.check(key);
        // Queued operations were invoked earlier and must run first.
        let is_allowed = self.stages.inline.is_fused(stage)
            && self.stage(usize::from(stage)).queue.len() == 0
            && !self.is_ended_or_expired(self.waiting.sessions.current())
            && self.stages.inline.take_budget();
        is_allowed.then_some(stage)
    }

    /// Whether the session has ended or its deadline has passed, so that none of its operations may start.
    #[inline(always)]
    fn is_ended_or_expired(&self, session: u32) -> bool {
        #[cold]
        fn check(processor: &Processor, session: u32) -> bool {
            let sessions = &processor.waiting.sessions;
            sessions.has_ended(session) || sessions.is_expired(session, processor.now())
        }
        session != NO_SESSION && check(self, session)
    }

    /// Polls part of the running operation on behalf of `stage`.
    #[inline(always)]
    fn poll_fused<Fut, T, P: FnOnce() -> Poll<T>>(
        &self,
        stage: u8,
        site: Site,
        poll: P,
    ) -> Poll<Result<T, CallError>> {
        let row = self.current.set_arc_row(self.stages.inline.row(stage));
        let polled = catch_unwind(AssertUnwindSafe(poll));
        self.current.set_arc_row(row);
        match polled {
            Ok(Poll::Ready(output)) => {
                self.count_inline(stage);
                Poll::Ready(Ok(output))
            }
            Ok(Poll::Pending) => Poll::Pending,
            Err(panic) => {
                Poll::Ready(Err(self.fused_panicked(stage, site, type_name::<Fut>(), panic)))
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn fused_panicked(
        &self,
        stage: u8,
        site: Site,
        name: &'static str,
        panic: Box<dyn Any + Send>,
    ) -> CallError {
        self.note_arc(usize::from(stage));
        let counters = self.stage_counters(stage);
        counters.started.add(1);
        counters.panicked.add(1);
        let error = self.record_panic(stage, display_name(name), site, &*panic);
        discard_panic(panic);
        error
    }
}
