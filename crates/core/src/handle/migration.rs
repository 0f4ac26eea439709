//! Partitions that move to another processor, while operations on them arrive.
//!
//! The owner *closes* the partition: an operation that would start waits, in order, as one that has
//! suspended. It waits until the operations that had started are gone, that is, until nobody has a
//! [`Partition`] of it. Then it takes the state out and hands it over by an order; the new owner
//! installs it, writes itself into the table, and answers; with the answer those that waited go on to
//! the new owner, and so does whatever still arrives.
//!
//! - *Never two owners.* The state is one value: in the old owner's entry, in the order, or in the new
//!   owner's entry. An operation starts only where it finds it.
//! - *Nothing lost.* What finds no state waits here while a move from here is under way, and is
//!   invoked anew at the owner in the table if none is. The table lags behind the state only until
//!   the answer, and those who left it wait for that; so a table never names who has sent it away.
//! - *Nothing twice.* The invocation is moved into the new call, and the operation that was here
//!   is but its caller from then on: its result, its panic and its end are passed on.
//! - *Never for ever.* An operation that waits for another of its own partition would keep the
//!   partition from being drained, and the other from starting. So after [`DRAIN`] the move is given
//!   up, nothing has changed, and those that waited run where they are.
//!
//! Operations of one caller on one partition are in no order over a move: one that has waited at the
//! old owner goes on from there, and a later one goes straight to the new owner and may be there first (`tests/every_turn.rs` finds it). Those that wait go on in
//! the order in which they came.
//!
//! # Safety
//! [`RoutedCall`] is pinned with the future in `Running`, which is never moved out; the other two states
//! are not pinned, and `Running`, once reached, is not left.

use std::future::{Future, poll_fn};
use std::panic::resume_unwind;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::error::MoveError;
use crate::future::call::Call;
use crate::future::oneshot;
use crate::future::sleep::{timeout, yield_now};
use crate::handle::partitioned::PartitionedStage;
use crate::handle::stage::Stage;
use crate::operation::state::NO_SESSION;
use crate::panic::Forwarded;
use crate::processor;
use crate::stage::key::Invocation;
use crate::state::partition::{Partition, Refusal};

/// How long a move waits for the operations that have started.
const DRAIN: Duration = Duration::from_millis(100);

/// An operation on a partition, which may not be here (any more).
pub(crate) enum RoutedCall<S, F, Fut, T> {
    Running(Fut),
    Waiting {
        stage: PartitionedStage<S>,
        from: Invocation,
        partition: usize,
        operation: Option<F>,
        round: u32,
    },
    /// Runs where the partition is.
    Away(Call<T>),
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
        let Self::Waiting { stage, from, partition, operation, round } = self else {
            return Poll::Ready(());
        };
        let (stage, from, partition) = (*stage, *from, *partition);
        let waker = context.waker().clone();
        let next = processor::current(|p| {
            let partitions = stage.partitions(p);
            if let Some(state) = partitions.enter(partition) {
                return operation.take().map(|operation| Self::Running(operation(state)));
            }
            if partitions.is_moving(partition) {
                partitions.wait(partition, round, waker);
                return None;
            }
            let operation = operation.take()?;
            Some(Self::Away(stage.call_at(p, from, partition, operation)))
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
                Self::Away(call) => {
                    return match std::task::ready!(Pin::new(call).poll(context)) {
                        Ok(value) => Poll::Ready(value),
                        // As if it had happened here; without a panic's message to the user.
                        Err(error) => resume_unwind(Box::new(Forwarded(error))),
                    };
                }
            }
        }
    }
}

enum Outcome {
    Moved,
    NotHere,
    Busy,
}

impl<S: Send + 'static> Stage<Partition<S>> {
    /// Moves a partition to the processor numbered `to`, with its state. Operations that have started
    /// finish where they are; those that arrive meanwhile wait, and run where the partition then is.
    /// The move goes on when the future is dropped after its first poll.
    ///
    /// ```
    /// # async fn example(table: phalanx_core::PartitionedStage<Vec<u32>>) {
    /// let partition = table.partition_of(17);
    /// table.move_partition(partition, 1).await.unwrap();
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`MoveError::Busy`] when operations that had started were not over in a tenth of a second, or
    /// another move of the partition is under way: nothing has changed. [`MoveError::Call`] when the
    /// owner could not be asked.
    ///
    /// # Panics
    /// If there is no such partition or processor, or outside of a processor.
    pub async fn move_partition(&self, partition: usize, to: usize) -> Result<(), MoveError> {
        let stage = *self;
        loop {
            let owner = stage.owner(partition);
            if owner == to {
                return Ok(());
            }
            let asked = processor::current(|p| {
                assert!(
                    to < p.processors(),
                    "no processor {to} in a program of {}",
                    p.processors()
                );
                // A session's end must not stop it half-way.
                p.waiting.sessions.within(NO_SESSION, || {
                    let from = stage.key().invoked();
                    Call::on(p, from, owner, move |_, _| stage.leave(partition, to))
                })
            });
            match asked.await.map_err(MoveError::Call)? {
                Outcome::Moved => return Ok(()),
                Outcome::Busy => return Err(MoveError::Busy),
                // Moved meanwhile; the table will say so.
                Outcome::NotHere => yield_now().await,
            }
        }
    }

    /// An operation of the owner's: the move.
    async fn leave(self, partition: usize, to: usize) -> Outcome {
        let closed = processor::current(|p| self.partitions(p).close(partition));
        match closed {
            Ok(()) => (),
            Err(Refusal::NotHere) => return Outcome::NotHere,
            Err(Refusal::Moving) => return Outcome::Busy,
        }
        let mut closing = Closing { stage: self, partition, given: false };
        let drained = poll_fn(|context| {
            let waker = context.waker().clone();
            let drained = processor::current(|p| self.partitions(p).is_drained(partition, waker));
            if drained { Poll::Ready(()) } else { Poll::Pending }
        });
        if timeout(DRAIN, drained).await.is_err() {
            return Outcome::Busy;
        }
        let (trigger, moved) = oneshot::local();
        processor::current(|here| {
            closing.given = true;
            let state = self.partitions(here).take(partition);
            here.request(
                to,
                move |there, responder| {
                    self.partitions(there).install(partition, state);
                    responder.reply(());
                },
                move |here, _: Option<()>| {
                    self.partitions(here).left(partition);
                    trigger.send(());
                },
            );
        });
        moved.await;
        Outcome::Moved
    }
}

/// A partition that is closed, and opened again unless it has been given away.
struct Closing<S: 'static> {
    stage: PartitionedStage<S>,
    partition: usize,
    given: bool,
}

impl<S> Drop for Closing<S> {
    fn drop(&mut self) {
        if !self.given {
            processor::try_current(|p| self.stage.partitions(p).reopen(self.partition));
        }
    }
}
