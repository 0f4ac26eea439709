//! Waiting for whichever comes first.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

/// Which of two came first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Either<A, B> {
    /// The first argument.
    Left(A),
    /// The second argument.
    Right(B),
}

/// Awaits both, returns the one that is ready first and drops the other. When both are ready, it
/// is the first argument.
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
