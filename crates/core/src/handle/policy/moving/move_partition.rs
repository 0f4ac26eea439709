//! Partitions that move to another processor while operations on them arrive.
//!
//! 1. The owner *closes* the partition. Operations that would start now wait in order, like suspended ones.
//! 2. The owner waits until all started operations have ended, that is, until no [`Partition`] handle of it exists.
//! 3. The owner takes the state out and sends it to the new owner in a request.
//! 4. The new owner installs the state, writes itself into the table, and replies.
//! 5. On the reply, the old owner forwards the waiting operations to the new owner, and any that arrive later.
//!
//! Four properties hold.
//!
//! - *One owner.* The state is one value: in the old owner's entry, in the request, or in the new owner's
//!   entry. An operation starts only where it finds the state.
//! - *Nothing is lost.* An operation that finds no state waits while a move away from its processor is in progress;
//!   otherwise it is invoked again on the owner in the table. The table lags behind the state only until the reply, and
//!   operations leave only after that. So the table never sends an operation back to the processor that it has just
//!   left.
//! - *Nothing runs twice.* The invocation moves into a new call, and the original operation becomes its caller: it
//!   passes on the result, the panic and the cancellation.
//! - *Nothing waits forever.* A started operation may wait for another operation of the same partition. The closed
//!   partition does not let the second one start, so the first would never end. The move is therefore abandoned after
//!   [`DRAIN`]. Nothing has changed by then, and the waiting operations run where they are.
//!
//! A move does not preserve the order of one caller's operations: an operation that has waited at the old owner is
//! forwarded from there, while a later one goes directly to the new owner and may arrive first
//! (`tests/it/every_turn.rs` demonstrates this). Waiting operations continue in the order of their arrival.
//!
//! No server of this repository calls `move_partition`; `phalanx-bench spread` measures it. The stage of `examples/kv`
//! migrates: its partitions move when a processor takes them over ([`super::take_over`]), and here when they return.
//!
//! # Safety
//! [`RoutedCall`] is pinned with the future in `Running`, which never moves out. The other two states are not
//! pinned, and `Running` is final.

use std::future::{Future, poll_fn};
use std::panic::resume_unwind;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::error::{CallError, MoveError};
use crate::future::call::Call;
use crate::future::cancel_on_drop::CancelOnDrop;
use crate::future::oneshot;
use crate::future::sleep::{timeout, yield_now};
use crate::handle::partitioned::PartitionedStage;
use crate::handle::stage::Stage;
use crate::operation::state::NO_SESSION;
use crate::panic::Forwarded;
use crate::processor;
use crate::processor::processor::Processor;
use crate::stage::key::CallSite;
use crate::state::partition::Partition;
use crate::state::policy::moving::CloseError;

/// The time for which a move waits for started operations.
const DRAIN: Duration = Duration::from_millis(100);

/// An operation on a partition that may be on another processor.
pub(crate) enum RoutedCall<S, F, Fut, T> {
    Running(Fut),
    Waiting {
        stage: PartitionedStage<S>,
        call_site: CallSite,
        partition: usize,
        operation: Option<F>,
        round: u32,
    },
    /// Runs on the processor that has the partition.
    Remote(CancelOnDrop<T>),
}

impl<S, F, Fut, T> RoutedCall<S, F, Fut, T>
where
    S: 'static,
    F: FnOnce(Partition<S>) -> Fut + Send + 'static,
    Fut: Future<Output = T> + 'static,
    T: Send + 'static,
{
    #[cold]
    fn advance(&mut self, context: &Context<'_>) -> Poll<()> {
        let Self::Waiting { stage, call_site, partition, operation, round } = self else {
            return Poll::Ready(());
        };
        let (stage, call_site, partition) = (*stage, *call_site, *partition);
        let waker = context.waker().clone();
        let next = processor::current(|p| {
            let partitions = stage.partitions(p);
            if let Some(state) = partitions.access(partition) {
                return operation.take().map(|operation| Self::Running(operation(state)));
            }
            if partitions.must_wait(partition) {
                partitions.wait(partition, round, waker);
                return None;
            }
            let operation = operation.take()?;
            Some(Self::Remote(CancelOnDrop(stage.call_at(p, call_site, partition, operation))))
        });
        match next {
            None => Poll::Pending,
            Some(next) => {
                *self = next;
                Poll::Ready(())
            }
        }
    }
}

impl<S, F, Fut, T> Future for RoutedCall<S, F, Fut, T>
where
    S: 'static,
    F: FnOnce(Partition<S>) -> Fut + Send + 'static,
    Fut: Future<Output = T> + 'static,
    T: Send + 'static,
{
    type Output = T;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        // SAFETY: see the top of the file.
        let this = unsafe { self.get_unchecked_mut() };
        loop {
            match this {
                Self::Running(future) => {
                    // SAFETY: pinned with `self`, see the top of the file.
                    return unsafe { Pin::new_unchecked(future) }.poll(context);
                }
                Self::Waiting { .. } => std::task::ready!(this.advance(context)),
                Self::Remote(call) => {
                    return match std::task::ready!(Pin::new(call).poll(context)) {
                        Ok(value) => Poll::Ready(value),
                        // The error reaches the caller as if the operation had failed here, without a panic
                        // message to the user.
                        Err(error) => resume_unwind(Box::new(Forwarded(error))),
                    };
                }
            }
        }
    }
}

pub(crate) enum MoveOutcome {
    Moved,
    NotOwner,
    Busy,
    /// The new owner has ended.
    TargetEnded,
}

impl<S: Send + 'static> Stage<Partition<S>> {
    /// Moves a partition with its state to the processor numbered `to`. Started operations finish on the old owner;
    /// later ones wait and run on the new owner. The move continues if the future is dropped after its first poll. If
    /// the new owner ends during the move, the state is lost.
    ///
    /// ```
    /// # async fn example(table: phalanx_core::PartitionedStage<Vec<u32>>) {
    /// let partition = table.partition_of(17);
    /// table.move_partition(partition, 1).await.unwrap();
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`MoveError::Busy`] if started operations did not finish within 100 ms, or if another move of the partition is
    /// in progress. The partition is then unchanged. [`MoveError::Call`] if the request to the owner failed.
    ///
    /// # Panics
    /// If there is no such partition or processor, or if called outside a processor.
    pub async fn move_partition(&self, partition: usize, to: usize) -> Result<(), MoveError> {
        let stage = *self;
        loop {
            let owner = stage.owner(partition);
            if owner == to {
                return Ok(());
            }
            let call = processor::current(|p| {
                p.is_here(to);
                // The end of the caller's session must not stop the move halfway.
                p.waiting.sessions.with_current(NO_SESSION, || {
                    let call_site = stage.key().call_site();
                    let move_out = move |_: &Processor, _| stage.move_out(partition, to);
                    Call::new(p, p.call_on(call_site, owner, move_out))
                })
            });
            match call.await.map_err(MoveError::Call)? {
                MoveOutcome::Moved => return Ok(()),
                MoveOutcome::Busy => return Err(MoveError::Busy),
                MoveOutcome::TargetEnded => return Err(MoveError::Call(CallError::Cancelled)),
                // The partition has moved in the meantime; the table will name its new owner.
                MoveOutcome::NotOwner => yield_now().await,
            }
        }
    }

    /// Performs the move; runs as an operation on the owner.
    pub(crate) async fn move_out(self, partition: usize, to: usize) -> MoveOutcome {
        let closed = processor::current(|p| {
            let has_ended = p.program().mailboxes[to].parking.is_closed();
            (!has_ended).then(|| self.partitions(p).close(partition))
        });
        let Some(closed) = closed else { return MoveOutcome::TargetEnded };
        match closed {
            Ok(()) => (),
            Err(CloseError::NotOwner) => return MoveOutcome::NotOwner,
            Err(CloseError::Moving) => return MoveOutcome::Busy,
        }
        let mut closing = ClosedPartition { stage: self, partition, sent: false };
        let drained = poll_fn(|context| {
            let waker = context.waker().clone();
            let drained = processor::current(|p| self.partitions(p).is_drained(partition, waker));
            if drained { Poll::Ready(()) } else { Poll::Pending }
        });
        if timeout(DRAIN, drained).await.is_err() {
            return MoveOutcome::Busy;
        }
        let (sender, moved) = oneshot::local();
        processor::current(|here| {
            closing.sent = true;
            let state = self.partitions(here).take(partition);
            here.request(
                to,
                move |target, responder| {
                    let partitions = self.partitions(target);
                    partitions.install(partition, state);
                    let first = partitions.table().first_owner(partition);
                    target.has_received(self.key().stage(), first);
                    drop(responder);
                },
                move |here| {
                    self.partitions(here).confirm_moved(partition, to);
                    sender.send(());
                },
            );
        });
        moved.await;
        MoveOutcome::Moved
    }
}

/// A closed partition. Dropping it reopens the partition unless the state was sent.
struct ClosedPartition<S: 'static> {
    stage: PartitionedStage<S>,
    partition: usize,
    sent: bool,
}

impl<S> Drop for ClosedPartition<S> {
    fn drop(&mut self) {
        if !self.sent {
            processor::try_current(|p| self.stage.partitions(p).reopen(self.partition));
        }
    }
}
