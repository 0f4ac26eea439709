//! A future that is not `Send` inside of one that is.
//!
//! # Safety
//! The inner future is boxed and touched only while [`ProcessorId::current`] is the processor that ran when the
//! [`Local`] was made. A processor is not `Send`, so that is the thread that made the future. A `Local` that is dropped
//! elsewhere sends the box to that processor in a [`ReturningFuture`], which leaks the box unless that processor opens
//! it.

use std::future::Future;
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::task::{Context, Poll};

use phalanx::embed::ProcessorId;

/// Makes a future `Send` that is awaited on this processor only, for frameworks that demand `Send`: the futures of
/// axum's handlers stay on one processor here. Calls of stages are `Send` without it.
///
/// ```
/// use std::rc::Rc;
/// use phalanx_compat::local;
///
/// async fn handler() -> usize {
///     local(async {
///         let shared = Rc::new(vec![1, 2, 3]);
///         phalanx::yield_now().await;
///         shared.len()
///     })
///     .await
/// }
/// # fn is_send<T: Send>(_: &T) {}
/// # is_send(&handler());
/// # let runtime = phalanx::Runtime::new().processors(1).signals(false);
/// # assert_eq!(runtime.block_on(|_| (), |()| handler()).unwrap(), 3);
/// ```
///
/// # Panics
/// Outside of a processor; there the future panics as well, and on other processors. Dropped elsewhere, the future is
/// dropped on its processor, or leaked if that has ended.
#[track_caller]
pub fn local<F: Future + 'static>(future: F) -> Local<F> {
    let home = ProcessorId::current()
        .expect("a local future belongs to a processor: make it in an operation of a Runtime");
    Local { future: Some(Box::pin(future)), home }
}

/// The future of [`local`].
#[must_use = "futures do nothing unless awaited"]
pub struct Local<F: Future + 'static> {
    /// Taken when this is dropped.
    future: Option<Pin<Box<F>>>,
    home: ProcessorId,
}

// SAFETY: the future is touched on its own thread only (top of the file).
unsafe impl<F: Future> Send for Local<F> {}

impl<F: Future> Future for Local<F> {
    type Output = F::Output;

    #[track_caller]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        assert!(
            ProcessorId::current() == Some(self.home),
            "a local future was awaited away from the processor that made it; await it there, \
             and spawn nothing that contains it on another runtime"
        );
        self.future.as_mut().expect("taken only by the destructor").as_mut().poll(context)
    }
}

impl<F: Future + 'static> Drop for Local<F> {
    fn drop(&mut self) {
        let Some(future) = self.future.take() else { return };
        let future = ReturningFuture(ManuallyDrop::new(future));
        match ProcessorId::current() == Some(self.home) {
            true => future.open(),
            false => self.home.run_later(move || future.open()),
        }
    }
}

/// A boxed future on its way to its processor. It is leaked unless it is opened.
struct ReturningFuture<F>(ManuallyDrop<Pin<Box<F>>>);

// SAFETY: it is opened only on the thread that made the future, and its destructor touches nothing.
unsafe impl<F> Send for ReturningFuture<F> {}

impl<F> ReturningFuture<F> {
    /// Drops the future. For its processor only.
    fn open(self) {
        drop(ManuallyDrop::into_inner(self.0));
    }
}
