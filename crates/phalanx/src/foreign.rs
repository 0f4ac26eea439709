//! Starting operations from other threads: threads of a library, of another runtime, or of the program itself.
//!
//! Code on a processor creates the handle with [`Foreign::new`]. Other threads use it.
//!
//! ```
//! use phalanx::foreign::Foreign;
//! use phalanx::{Graph, Runtime};
//!
//! let mut graph = Graph::new();
//! let imports = graph.shared("imports", ());
//! let counts = graph.partitioned("counts", |_partition| 0);
//! Runtime::new().processors(2).run(graph, move |start| {
//!     if start.processor() > 0 {
//!         return Ok(());
//!     }
//!     let imports = Foreign::new(imports, 100)?;
//!     let control = start.control();
//!     std::thread::spawn(move || {
//!         let counted = imports.call(move |_| async move {
//!             // An operation like any other. It can call stages.
//!             counts.call(7, |count| async move { count.with(|count| *count += 1) }).await
//!         });
//!         counted.unwrap().wait().unwrap().unwrap();
//!         assert_eq!(imports.refused(), 0);
//!         control.drain();
//!     });
//!     Ok(())
//! })?;
//! # Ok::<(), phalanx::runtime::RunError>(())
//! ```

use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use phalanx_core::{Call, CallError, ProcessorId, Shared, SharedStage, oneshot, yield_now};

use crate::shutdown::draining;
use crate::sync::mailbox::{self, Receiver, SendError, Sender};
use crate::task::{Either, select};

/// The maximum number of operations that the receiving operation starts before it yields.
const MAX_BATCH: usize = 64;

/// Starts an operation. If its caller awaits the result, this starts an operation that passes the result on, and
/// returns a function that makes the call, to be run when the stage has capacity again.
type Job<S> = Box<dyn FnOnce(SharedStage<S>) -> Option<StartCall<S>> + Send>;
type StartCall<S> = Box<dyn FnOnce(SharedStage<S>)>;

/// A handle with which any thread can start operations of one stage on one processor.
///
/// Operations wait in a bounded queue until they reach the stage. Operations that a thread starts in quick succession
/// form a cohort. If the stage has a [capacity](crate::stage::StageOptions::capacity) and is full, operations stay in
/// the queue. Operations from one thread start in the order of its calls.
pub struct Foreign<S: Send + Sync + 'static>(Sender<Job<S>>);

impl<S: Send + Sync + 'static> Foreign<S> {
    /// Creates a handle for operations of `stage` on this processor, with a queue of at most `capacity` operations. A
    /// *receiving operation* of the stage starts them. It ends when all clones of the handle are dropped, or when the
    /// program drains, after it has started the queued operations. It belongs to the [session](crate::task) of the
    /// operation that creates the handle and ends with it, so create the handle in the program's `start`, or in an
    /// operation that lives as long as the handle.
    ///
    /// # Errors
    /// The errors of [`SharedStage::dispatch`].
    ///
    /// # Panics
    /// If called outside a processor, or if `capacity` is zero.
    pub fn new(stage: SharedStage<S>, capacity: usize) -> Result<Self, CallError> {
        let (sender, receiver) = mailbox::bounded(capacity);
        stage.dispatch(move |_| start_operations(stage, receiver))?;
        Ok(Self(sender))
    }

    /// Starts an operation whose result nobody awaits. If the processor has its [maximum](crate::Graph::max_operations)
    /// number of operations, the operation is rejected, and the stage counts the rejection.
    ///
    /// # Errors
    /// [`ForeignError`]; the operation does not start.
    pub fn dispatch<F, Fut>(&self, operation: F) -> Result<(), ForeignError>
    where
        F: FnOnce(Shared<S>) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        self.send(Box::new(move |stage| {
            drop(stage.dispatch(operation));
            None
        }))
    }

    /// Starts an operation. Block on the returned call or await it for the result. Dropping the call does not cancel
    /// the operation.
    ///
    /// # Errors
    /// [`ForeignError`]; the operation does not start.
    pub fn call<F, Fut, T>(&self, operation: F) -> Result<ForeignCall<T>, ForeignError>
    where
        F: FnOnce(Shared<S>) -> Fut + Send + 'static,
        Fut: Future<Output = T> + 'static,
        T: Send + 'static,
    {
        let (sender, receiver) = oneshot::shared();
        self.send(Box::new(move |stage: SharedStage<S>| {
            let (call_sender, call_receiver) = oneshot::local::<Call<T>>();
            // Only an operation that awaits the call observes a panic in it. That operation starts first: if it is
            // rejected, the caller finds the sender dropped, and the call must not be made.
            let dispatched = stage.dispatch(move |_| async move {
                if let Some(call) = call_receiver.await {
                    sender.send(call.await);
                }
            });
            dispatched.ok()?;
            Some(Box::new(move |stage: SharedStage<S>| call_sender.send(stage.call(operation))))
        }))?;
        Ok(ForeignCall(receiver))
    }

    fn send(&self, job: Job<S>) -> Result<(), ForeignError> {
        self.0.try_send(job).map_err(|refused| match refused {
            SendError::Full(_) => ForeignError::Full { capacity: self.0.capacity() },
            SendError::Closed(_) => ForeignError::Ended,
        })
    }

    /// The number of operations, from all clones, that were refused because the queue was full.
    pub fn refused(&self) -> u64 {
        self.0.refused()
    }
}

impl<S: Send + Sync + 'static> Clone for Foreign<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S: Send + Sync + 'static> fmt::Debug for Foreign<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Foreign").field(&self.0).finish()
    }
}

/// The reason why an operation of another thread was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ForeignError {
    /// The queue is full.
    #[error(
        "the queue of the handle is full (capacity {capacity}); retry later, or raise the capacity of the handle"
    )]
    Full {
        /// The capacity of the queue.
        capacity: usize,
    },
    /// The receiving operation has ended.
    #[error(
        "the program is draining, or the operation that receives operations of other threads has ended"
    )]
    Ended,
}

/// The receiving operation: starts the operations of other threads until the program drains or the last handle is
/// dropped.
async fn start_operations<S: Send + Sync + 'static>(
    stage: SharedStage<S>,
    mut jobs: Receiver<Job<S>>,
) {
    let (mut batch, mut draining) = (Vec::new(), draining());
    let mut drains = false;
    loop {
        if !drains {
            let received = select(jobs.recv_many(&mut batch, MAX_BATCH), &mut draining).await;
            drains = matches!(received, Either::Right(()));
            if drains {
                jobs.close();
            }
        }
        if drains {
            jobs.recv_many(&mut batch, MAX_BATCH).await;
        }
        if batch.is_empty() {
            return;
        }
        for job in batch.drain(..) {
            stage.wait_for_capacity().await;
            let Some(start_call) = job(stage) else { continue };
            stage.wait_for_capacity().await;
            start_call(stage);
        }
        // Let other operations of the stage run first.
        yield_now().await;
    }
}

/// The result of [`Foreign::call`], a future that can be awaited in any runtime. [`wait`](Self::wait) blocks a thread
/// instead.
#[must_use = "dropping the call discards the result"]
pub struct ForeignCall<T: Send>(oneshot::Receiver<Result<T, CallError>>);

impl<T: Send> ForeignCall<T> {
    /// Blocks this thread until the operation has ended.
    ///
    /// # Errors
    /// The errors of [`Call`]. [`CallError::Cancelled`] also if the processor had no room for the operation, which then
    /// does not run.
    ///
    /// # Panics
    /// If called on a processor, which must not block. Await the call there.
    pub fn wait(self) -> Result<T, CallError> {
        assert!(
            ProcessorId::current().is_none(),
            "`ForeignCall::wait` would block a processor's thread; await the call instead"
        );
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let (mut call, mut context) = (pin!(self), Context::from_waker(&waker));
        loop {
            match call.as_mut().poll(&mut context) {
                Poll::Ready(result) => return result,
                Poll::Pending => thread::park(),
            }
        }
    }
}

impl<T: Send> Future for ForeignCall<T> {
    type Output = Result<T, CallError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let result = Pin::new(&mut self.0).poll(context);
        result.map(|result| result.unwrap_or(Err(CallError::Cancelled)))
    }
}

/// Wakes a parked thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
