//! Waiting for the first of several futures.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;

/// The output of [`select`], which is the output of the future that was ready first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Either<A, B> {
    /// The output of the first argument.
    Left(A),
    /// The output of the second argument.
    Right(B),
}

/// Awaits two futures, returns the output of the one that is ready first, and drops the other. If both are ready,
/// returns the output of the first argument.
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

/// Awaits many futures, returns the index and the output of the one that is ready first, and drops the others. If
/// several are ready, the one with the lowest index wins. Each wake-up polls all futures, so this is suitable for
/// dozens of futures but not for thousands. For calls of stages, use [`select_all`](super::select_all), which also
/// cancels the other calls.
///
/// ```
/// use phalanx::sync::mailbox;
/// use phalanx::task::select_many;
///
/// # phalanx::Runtime::new().processors(1).block_on(|_| (), |()| async {
/// let (senders, mut inputs): (Vec<_>, Vec<_>) = (0..3).map(|_| mailbox::bounded(8)).unzip();
/// senders[2].try_send("news").unwrap();
/// let (input, value) = select_many(inputs.iter_mut().map(|input| input.recv())).await;
/// assert_eq!((input, value), (2, Some("news")));
/// # })?;
/// # Ok::<(), phalanx::runtime::RunError>(())
/// ```
///
/// # Panics
/// If there are no futures: the wait would never end.
pub async fn select_many<F: Future>(futures: impl IntoIterator<Item = F>) -> (usize, F::Output) {
    let mut futures: Vec<Pin<Box<F>>> = futures.into_iter().map(Box::pin).collect();
    assert!(!futures.is_empty(), "`select_many` needs at least one future");
    poll_fn(|context| {
        let ready = futures.iter_mut().enumerate().find_map(|(index, future)| {
            match future.as_mut().poll(context) {
                Poll::Ready(output) => Some((index, output)),
                Poll::Pending => None,
            }
        });
        ready.map_or(Poll::Pending, Poll::Ready)
    })
    .await
}
