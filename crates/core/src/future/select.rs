//! Waiting for the first of several children and cancelling the others.
//!
//! Each child wakes the parent directly, without a counter. The parent then checks which child is over. Children that
//! finish before this check cause at most one needless wake-up each.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::error::CallError;
use crate::future::call::Call;

/// Waits for the first of `calls` to finish and cancels the others, on other processors too. Use it for requests that
/// need only one answer, for example from several replicas, or from a fast path and a reliable one.
///
/// A failed operation counts as finished; the result contains its error. Cancelled operations are not awaited, and
/// operations that they have invoked continue ([`Call::cancel`]). Dropping a `SelectAll` cancels none of them.
///
/// ```
/// use phalanx_core::{CallError, SharedStage, select_all};
///
/// /// The index of the processor that answers first, and its answer.
/// async fn quickest(replica: SharedStage<u32>) -> (usize, Result<u32, CallError>) {
///     select_all((0..2).map(|n| replica.call_on(n, |state| async move { *state })).collect()).await
/// }
/// ```
///
/// # Panics
/// If there are no calls: the wait would never end.
pub fn select_all<T>(calls: Vec<Call<T>>) -> SelectAll<T> {
    assert!(!calls.is_empty(), "select_all needs at least one call");
    SelectAll { calls }
}

/// The future of [`select_all`]. It resolves to the index of the first call to finish, and to its result.
#[must_use = "futures do nothing unless awaited"]
pub struct SelectAll<T> {
    calls: Vec<Call<T>>,
}

impl<T> Future for SelectAll<T> {
    type Output = (usize, Result<T, CallError>);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        assert!(!self.calls.is_empty(), "a `SelectAll` was polled after it had completed");
        for at in 0..self.calls.len() {
            if let Poll::Ready(result) = Pin::new(&mut self.calls[at]).poll(context) {
                let mut calls = std::mem::take(&mut self.calls);
                drop(calls.swap_remove(at));
                calls.iter().for_each(Call::cancel);
                return Poll::Ready((at, result));
            }
        }
        Poll::Pending
    }
}
