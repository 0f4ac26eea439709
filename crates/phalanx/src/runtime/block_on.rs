//! Running one `async` function as a program, which is the basis of `#[phalanx::main]` and `#[phalanx::test]`.
//!
//! The function runs as an operation of a stage named `main`, on the first processor. An [`Outcome`] takes its output
//! to the caller's thread. When the function ends, even by a panic or cancellation, the program begins to drain.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::thread;

use phalanx_core::{Graph, drain};

use super::{RunError, Runtime, StartContext};

use crate::lock::lock;

impl Runtime {
    /// Runs `main` as an operation of a stage named `main` on the first processor, and returns its output. The program
    /// drains when `main` returns: operations that it started may finish within [the time
    /// limit](Self::shutdown_timeout).
    ///
    /// `declare` declares the other stages. Its result, usually their handles, is passed to `main`. The first SIGINT or
    /// SIGTERM starts a drain, to which `main` should react ([`draining`](crate::shutdown::draining)). The second
    /// signal, or the time limit, cancels `main`.
    ///
    /// A server that accepts connections on each processor should use [`run`](Self::run), which starts operations on
    /// all of them.
    ///
    /// ```
    /// use phalanx::Runtime;
    ///
    /// let runtime = Runtime::new().processors(2);
    /// let sum = runtime.block_on(
    ///     |graph| graph.partitioned("sums", |_| 0),
    ///     |sums| async move {
    ///         for number in [1, 2, 3] {
    ///             let added = sums.call(7, move |sum| async move { sum.with(|sum| *sum += number) });
    ///             added.await.unwrap();
    ///         }
    ///         sums.call(7, |sum| async move { sum.with(|sum| *sum) }).await.unwrap()
    ///     },
    /// )?;
    /// assert_eq!(sum, 6);
    /// # Ok::<(), phalanx::runtime::RunError>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`run`](Self::run), and [`RunError::Cancelled`] if `main` was cancelled before it returned.
    ///
    /// # Panics
    /// If `main` or `declare` panics.
    pub fn block_on<S, M, F>(
        self,
        declare: impl FnOnce(&mut Graph) -> S,
        main: M,
    ) -> Result<F::Output, RunError>
    where
        S: Send + 'static,
        M: FnOnce(S) -> F + Send + 'static,
        F: Future + 'static,
        F::Output: Send + 'static,
    {
        let mut graph = Graph::new();
        let stage = graph.shared("main", ());
        let argument = declare(&mut graph);
        let outcome = Outcome::new();
        let work = Mutex::new(Some((main, argument)));
        let start = |start: &StartContext| {
            if start.processor() > 0 {
                return Ok(());
            }
            let work = lock(&work).take();
            let (main, argument) = work.expect("each processor starts once");
            let outcome = outcome.clone();
            stage.dispatch(move |_| outcome.record(move || main(argument)))?;
            Ok(())
        };
        self.run(graph, start)?;
        outcome.take().ok_or(RunError::Cancelled)
    }
}

/// The output of the main operation, or its panic.
pub(crate) struct Outcome<T>(Arc<Mutex<Option<thread::Result<T>>>>);

impl<T> Clone for Outcome<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Outcome<T> {
    pub(crate) fn new() -> Self {
        Self(Arc::default())
    }

    /// Runs a future to its end, stores its output or its panic, and drains the program.
    pub(crate) async fn record<F: Future<Output = T>>(self, make: impl FnOnce() -> F) {
        let _drain = DrainOnDrop;
        let future = catch_unwind(AssertUnwindSafe(make));
        let result = match future {
            Err(panic) => Err(panic),
            Ok(future) => {
                let mut future = pin!(future);
                poll_fn(|context| {
                    let poll = || future.as_mut().poll(context);
                    match catch_unwind(AssertUnwindSafe(poll)) {
                        Ok(Poll::Pending) => Poll::Pending,
                        Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
                        Err(panic) => Poll::Ready(Err(panic)),
                    }
                })
                .await
            }
        };
        *lock(&self.0) = Some(result);
    }

    /// Takes the output. Returns `None` if the operation was cancelled before it returned.
    ///
    /// # Panics
    /// If the operation panicked.
    pub(crate) fn take(&self) -> Option<T> {
        let result = lock(&self.0).take();
        result.map(|result| result.unwrap_or_else(|panic| resume_unwind(panic)))
    }
}

struct DrainOnDrop;

impl Drop for DrainOnDrop {
    fn drop(&mut self) {
        drain();
    }
}
