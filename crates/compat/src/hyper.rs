//! The traits of `hyper::rt`.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::OnceLock;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use hyper::rt::{Executor, Read, ReadBufCursor, Sleep, Write};
use phalanx::SharedStage;
use phalanx::net::PollStream;

use crate::compat::{Compat, impl_write};

impl<S: PollStream + Unpin> Read for Compat<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let room = buffer.remaining();
        ready!(self.here()?.poll_read(context, room, &mut |bytes| buffer.put_slice(bytes)))?;
        Poll::Ready(Ok(()))
    }
}

impl_write!(
    Write,
    poll_shutdown,
    fn is_write_vectored(&self) -> bool {
        true
    }
);

/// An executor for hyper: each future becomes an operation of a stage, on the processor that hyper runs on. The future
/// need not be `Send`. If the stage is full, the future is dropped; hyper then resets its stream. It panics outside of a
/// processor.
///
/// ```
/// use phalanx::Graph;
/// use phalanx_compat::StageExecutor;
///
/// let mut graph = Graph::new();
/// let executor = StageExecutor(graph.shared("streams", ()));
/// # let _ = executor;
/// ```
#[derive(Clone, Copy)]
pub struct StageExecutor(pub SharedStage<()>);

impl<F: Future<Output = ()> + 'static> Executor<F> for StageExecutor {
    fn execute(&self, future: F) {
        // Refused: the future is dropped.
        let _ = self.0.dispatch(move |_| future);
    }
}

/// A timer for hyper: timers of the processor that hyper runs on, with its clock, which is virtual in a simulation. It
/// panics outside of a processor, and its timers panic on another one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Timer;

/// The instant that stands for the start of a program's clock.
fn origin() -> Instant {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    *ORIGIN.get_or_init(Instant::now)
}

struct Sleeping(phalanx::time::Sleep);

impl Future for Sleeping {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.0).poll(context)
    }
}

impl Sleep for Sleeping {}

impl hyper::rt::Timer for Timer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        Box::pin(Sleeping(phalanx::sleep(duration)))
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        self.sleep(deadline.saturating_duration_since(self.now()))
    }

    fn now(&self) -> Instant {
        origin() + phalanx::time::now()
    }
}

impl fmt::Debug for StageExecutor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StageExecutor")
    }
}
