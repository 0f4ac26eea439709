//! Waiting for the first of two futures.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

/// Output of [`select`]: that of the future that was ready first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Either<A, B> {
    /// The output of the first argument.
    Left(A),
    /// The output of the second argument.
    Right(B),
}

/// Awaits two futures, returns the output of the one that is ready first, and drops the other. If both are
/// ready, the first argument wins.
pub async fn select<A: Future, B: Future>(one: A, other: B) -> Either<A::Output, B::Output> {
    let (mut one, mut other) = (pin!(one), pin!(other));
    poll_fn(|context| {
        if let Poll::Ready(output) = one.as_mut().poll(context) {
            return Poll::Ready(Either::Left(output));
        }
        other.as_mut().poll(context).map(Either::Right)
    })
    .await
}
