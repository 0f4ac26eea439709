//! Blocking calls: operations of the stage that pass work to a thread and wait for it.
//!
//! The operation does not belong to its caller's session, because it must outlive the session: a thread cannot be
//! stopped, and it uses data that belongs to the session. The operation delays the end of the session until the thread
//! has finished. If the stage is detached, the operation does belong to its caller's session, and it ends when the
//! caller drops the call.

use std::any::Any;
use std::cell::Cell;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use phalanx_core::{CallError, Session, Shared, catch_panic, oneshot};

use super::pool::{JobNumber, Pool};
use super::{BlockingError, BlockingStage, Inner};
use crate::io;
use crate::task::{Either, select};

/// The progress of a call, shared by its caller and its operation.
enum Place {
    /// The operation has not run yet.
    Invoked,
    /// Queued, or running on a thread.
    Queued(Arc<Pool>, JobNumber),
    /// The caller has dropped the call.
    Cancelled,
    Over,
}

type SharedPlace = Rc<Cell<Place>>;

impl<S: Send + Sync + 'static> BlockingStage<S> {
    /// Runs `work` on a thread of the stage. Await the call for the result. The work runs even if the call is not
    /// awaited.
    ///
    /// Dropping the call cancels the work if no thread has started it; otherwise the result is dropped. The end of the
    /// caller's session waits for a started call, unless the stage is [detached](super::BlockingOptions::detached).
    ///
    /// The call fails with [`BlockingError::Full`] if the queue is full, with [`BlockingError::Panicked`] if `work`
    /// panics, with [`BlockingError::NoThread`] if the stage has no thread and the system cannot create one, and if the
    /// stage's operation is rejected or ended.
    ///
    /// # Panics
    /// If called outside a processor.
    #[track_caller]
    pub fn call<F, T>(&self, work: F) -> BlockingCall<T>
    where
        F: FnOnce(&S) -> T + Send + 'static,
        T: Send + 'static,
    {
        let place: SharedPlace = Rc::new(Cell::new(Place::Invoked));
        let (sender, receiver) = oneshot::local();
        let (alive, dropped) = self.detached.then(oneshot::local).unzip();
        let guard =
            if self.detached { None } else { Session::current().map(|session| session.guard()) };
        let operation = {
            let place = place.clone();
            move |inner: Shared<Inner<S>>| async move {
                let _guard = guard;
                submit_job(&inner, work, &place, sender, dropped).await;
            }
        };
        let invoke = || self.stage.dispatch(operation);
        let error = if self.detached {
            invoke()
        } else {
            io::with(|io| io.detached_session.get_or_init(Session::new).clone()).scope(invoke)
        };
        BlockingCall { receiver, place, error: error.err(), _alive: alive }
    }
}

/// Runs as an operation of the stage. Returns early if `dropped` resolves.
async fn submit_job<S, F, T>(
    inner: &Inner<S>,
    work: F,
    place: &SharedPlace,
    sender: oneshot::LocalSender<Result<T, BlockingError>>,
    dropped: Option<oneshot::LocalReceiver<()>>,
) where
    S: Send + Sync + 'static,
    F: FnOnce(&S) -> T + Send + 'static,
    T: Send + 'static,
{
    if matches!(place.replace(Place::Invoked), Place::Cancelled) {
        return;
    }
    io::with(|io| io.pools.borrow_mut().enter(&inner.pool));
    let result = match submit(inner, work) {
        Ok((number, done)) => {
            place.set(Place::Queued(inner.pool.clone(), number));
            let done = match dropped {
                None => done.await,
                Some(dropped) => match select(done, dropped).await {
                    Either::Left(done) => done,
                    Either::Right(_) => None,
                },
            };
            done.unwrap_or_else(|| Err(CallError::Cancelled.into()))
        }
        Err(error) => Err(error),
    };
    place.set(Place::Over);
    sender.send(result);
}

type Done<T> = oneshot::Receiver<Result<T, BlockingError>>;

fn submit<S, F, T>(inner: &Inner<S>, work: F) -> Result<(JobNumber, Done<T>), BlockingError>
where
    S: Send + Sync + 'static,
    F: FnOnce(&S) -> T + Send + 'static,
    T: Send + 'static,
{
    let (sender, done) = oneshot::shared();
    let (state, stage) = (inner.state.clone(), inner.name);
    let number = inner.pool.submit(Box::new(move || {
        // The whole program has ended; nothing awaits the result.
        if sender.is_closed() {
            return;
        }
        let result = catch_unwind(AssertUnwindSafe(|| work(&state)));
        drop(state);
        sender.send(result.map_err(|panic| {
            let message = text(&*panic).into();
            catch_panic(|| drop(panic));
            BlockingError::Panicked { stage, message }
        }));
    }))?;
    Ok((number, done))
}

/// The message of a panic, if it is a string.
fn text(panic: &(dyn Any + Send)) -> &str {
    let owned = panic.downcast_ref::<String>().map(String::as_str);
    owned.or(panic.downcast_ref::<&str>().copied()).unwrap_or("(no message)")
}

/// The future of a blocking call's result; see [`BlockingStage::call`].
#[must_use = "dropping the call cancels it or discards its result"]
pub struct BlockingCall<T> {
    receiver: oneshot::LocalReceiver<Result<T, BlockingError>>,
    place: SharedPlace,
    error: Option<CallError>,
    /// Ends the operation of a detached stage when it is dropped.
    _alive: Option<oneshot::LocalSender<()>>,
}

impl<T> Future for BlockingCall<T> {
    type Output = Result<T, BlockingError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(error) = self.error.take() {
            return Poll::Ready(Err(error.into()));
        }
        let cancelled = || Err(CallError::Cancelled.into());
        Pin::new(&mut self.receiver).poll(context).map(|error| error.unwrap_or_else(cancelled))
    }
}

impl<T> Drop for BlockingCall<T> {
    fn drop(&mut self) {
        match self.place.replace(Place::Cancelled) {
            Place::Queued(pool, number) => pool.withdraw(number),
            Place::Over => self.place.set(Place::Over),
            Place::Invoked | Place::Cancelled => (),
        }
    }
}
