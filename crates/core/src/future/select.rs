//! Waiting for the first of several children; the rest are ended.
//!
//! Each child is told to wake the parent itself, without a counter between them: the parent looks
//! which it was. Those that finish before it has looked wake it in vain, at most once each.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::error::CallError;
use crate::future::call::Call;

/// Waits for the first of `calls` to be over, and ends the others, also those on other processors.
/// For requests of which one answer is enough: replicas, or a fast way and a sure one.
///
/// An operation that fails is over, too: the result says how it went. Those that are ended are not
/// waited for; what they have themselves invoked goes on ([`Call::cancel`]). A `SelectAll` that is dropped
/// leaves all of them running, as dropped calls are.
///
/// ```
/// use phalanx_core::{CallError, SharedStage, select_all};
///
/// /// The answer of whichever processor is quicker, and which it was.
/// async fn quickest(replica: SharedStage<u32>) -> (usize, Result<u32, CallError>) {
///     select_all((0..2).map(|n| replica.call_on(n, |state| async move { *state })).collect()).await
/// }
/// ```
///
/// # Panics
/// If there are no calls: the wait would never end.
pub fn select_all<T>(calls: Vec<Call<T>>) -> SelectAll<T> {
    assert!(!calls.is_empty(), "the first of nothing never comes");
    SelectAll { calls }
}

/// The future of [`select_all`]: resolves to the number of the first call that is over, and its result.
#[must_use = "futures do nothing unless awaited"]
pub struct SelectAll<T> {
    calls: Vec<Call<T>>,
}

impl<T> Future for SelectAll<T> {
    type Output = (usize, Result<T, CallError>);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        assert!(!self.calls.is_empty(), "the first of several is awaited once");
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
