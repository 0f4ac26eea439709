//! A call that cancels its operation on drop.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::error::CallError;
use crate::future::call::Call;

/// A [`Call`] that cancels its operation when it is dropped before the result.
pub(crate) struct CancelOnDrop<T>(pub(crate) Call<T>);

impl<T> Future for CancelOnDrop<T> {
    type Output = Result<T, CallError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context)
    }
}

impl<T> Drop for CancelOnDrop<T> {
    #[inline]
    fn drop(&mut self) {
        // Has no effect after the result was returned.
        self.0.cancel();
    }
}
