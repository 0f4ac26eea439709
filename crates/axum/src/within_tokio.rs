//! Servers within programs of tokio, and tokio within servers.

use std::future::{Future, IntoFuture};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use phalanx::Runtime;
use phalanx::runtime::Control;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::server::Server;
use crate::services::Services;

/// A signal to drain.
type Shutdown = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The options of a server that concern tokio.
#[derive(Default)]
pub(crate) struct TokioOptions {
    side_runtime: Option<Handle>,
    shutdown: Option<Shutdown>,
}

impl TokioOptions {
    /// Whether a signal of its own drains the server.
    pub(crate) fn has_shutdown(&self) -> bool {
        self.shutdown.is_some()
    }

    /// Adds the options to those of the runtime.
    pub(crate) fn apply(self, runtime: Runtime) -> Runtime {
        match self.side_runtime {
            Some(handle) => runtime.thread_scope(move |run| {
                let _entered = handle.enter();
                run();
            }),
            None => runtime,
        }
    }
}

impl<M: 'static, V: Services<M>> Server<V, M> {
    /// Enters a runtime of tokio on each processor, for code that needs tokio's reactor, timers or tasks: reqwest, sqlx,
    /// the WebSockets and the keep-alive messages of axum. Its own threads do that I/O and run those tasks. A wake-up
    /// from them crosses threads, so handlers that need none of this are faster. A server that is awaited within tokio
    /// enters that runtime by itself, unless this sets another.
    pub fn side_runtime(mut self, handle: Handle) -> Self {
        self.tokio.side_runtime = Some(handle);
        self
    }

    /// Drains when `signal` resolves, instead of when SIGINT or SIGTERM arrives. For a server that is awaited;
    /// [`run`](Server::run) returns an error.
    pub fn with_graceful_shutdown(
        mut self,
        signal: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        self.tokio.shutdown = Some(Box::pin(signal));
        self
    }
}

impl<M: 'static, V: Services<M>> IntoFuture for Server<V, M> {
    type Output = io::Result<()>;
    type IntoFuture = Serving;

    /// Serves on threads of its own until the future is dropped, which ends the server, or until it drains.
    fn into_future(mut self) -> Serving {
        let shutdown = self.tokio.shutdown.take();
        if shutdown.is_some() {
            self.runtime = self.runtime.signals(false);
        }
        if self.tokio.side_runtime.is_none() {
            self.tokio.side_runtime = Handle::try_current().ok();
        }
        let (started, starting) = oneshot::channel();
        let (sender, end) = oneshot::channel();
        let run = move || {
            let served = self.run_with_ready(|control| {
                // Fails if the future was dropped.
                if let Err(control) = started.send(control) {
                    control.end();
                }
            });
            let _ = sender.send(served.map_err(io::Error::from));
        };
        let thread = std::thread::Builder::new().name("phalanx-axum".into()).spawn(run);
        Serving { thread: thread.map(drop), shutdown, starting: Some(starting), control: None, end }
    }
}

/// The future of a [`Server`] that is awaited.
#[must_use = "futures do nothing unless awaited"]
pub struct Serving {
    thread: io::Result<()>,
    shutdown: Option<Shutdown>,
    starting: Option<oneshot::Receiver<Control>>,
    control: Option<Control>,
    end: oneshot::Receiver<io::Result<()>>,
}

impl Future for Serving {
    type Output = io::Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if let Err(error) = std::mem::replace(&mut this.thread, Ok(())) {
            return Poll::Ready(Err(error));
        }
        if let Some(starting) = &mut this.starting
            && let Poll::Ready(started) = Pin::new(starting).poll(context)
        {
            (this.starting, this.control) = (None, started.ok());
        }
        if let (Some(control), Some(shutdown)) = (&this.control, &mut this.shutdown)
            && shutdown.as_mut().poll(context).is_ready()
        {
            control.drain();
            this.shutdown = None;
        }
        let lost = |_| Err(io::Error::other("the thread of the server panicked"));
        Pin::new(&mut this.end).poll(context).map(|sender| sender.unwrap_or_else(lost))
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // It may have started since the last poll. Later it finds that nobody listens.
        if let Some(starting) = &mut self.starting {
            starting.close();
            self.control = starting.try_recv().ok();
        }
        if let Some(control) = &self.control {
            control.end();
        }
    }
}
