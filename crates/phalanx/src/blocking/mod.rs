//! Blocking stages: blocking calls on a thread pool.
//!
//! A processor must never block, because all operations queued there would wait. Use a blocking stage for calls that
//! block or take long, such as a DNS resolver, a database client, or compression of a large file. The stage's
//! operations pass the call to a thread and suspend. The metrics show its queue, waits and operations like those of any
//! other stage.
//!
//! | file | contents |
//! |---|---|
//! | `call` | one call, from the caller to a thread and back |
//! | `per_thread` | states that each thread has for itself |
//! | `pool` | the threads and their bounded queue |
//! | `workers` | simulated threads |

mod call;
mod per_thread;
mod pool;
#[cfg_attr(not(feature = "sim"), path = "workers_disabled.rs")]
pub(crate) mod workers;

use std::sync::Arc;

use phalanx_core::{CallError, Graph, HandleSet, Handles, SharedStage};
use phalanx_driver::use_all_cores;

pub use self::call::BlockingCall;
pub use self::per_thread::PerThread;
use self::pool::Pool;
pub(crate) use self::pool::{Pools, awaited_stages};
use crate::cores::use_slow_cores;

/// Default number of threads of a blocking stage.
pub const DEFAULT_BLOCKING_THREADS: usize = 4;
/// Default number of calls that may wait for a thread of a blocking stage.
pub const DEFAULT_BLOCKING_QUEUE: usize = 1024;

/// Declares a blocking stage as the next stage of `graph`: options first, then
/// [`state`](BlockingOptions::state), which returns the handle.
///
/// ```
/// use std::net::ToSocketAddrs;
/// use phalanx::blocking::blocking;
/// use phalanx::{Graph, Runtime};
///
/// let mut graph = Graph::new();
/// let client = graph.shared("client", ());
/// let resolver = blocking(&mut graph, "resolver").threads(2).queue(64).state(());
/// Runtime::new().processors(1).run(graph, move |start| {
///     let control = start.control();
///     client.dispatch(move |_| async move {
///         // The system's resolver blocks; this processor continues in the meantime.
///         let found = resolver.call(|_| ("127.0.0.1", 80).to_socket_addrs()).await;
///         assert_eq!(found.unwrap().unwrap().count(), 1);
///         control.drain();
///     })?;
///     Ok(())
/// })?;
/// # Ok::<(), phalanx::runtime::RunError>(())
/// ```
pub fn blocking<'g>(graph: &'g mut Graph, name: &'static str) -> BlockingOptions<'g> {
    BlockingOptions {
        graph,
        name,
        threads: DEFAULT_BLOCKING_THREADS,
        queue: DEFAULT_BLOCKING_QUEUE,
        detached: false,
        use_cores: use_all_cores,
    }
}

/// Options of a blocking stage. End with [`state`](Self::state).
#[must_use = "the stage is declared by its state"]
pub struct BlockingOptions<'g> {
    graph: &'g mut Graph,
    name: &'static str,
    threads: usize,
    queue: usize,
    detached: bool,
    use_cores: fn(),
}

impl BlockingOptions<'_> {
    /// The maximum number of threads, which all processors share; [`DEFAULT_BLOCKING_THREADS`] by default. A thread is
    /// started when a call finds no idle thread.
    ///
    /// # Panics
    /// If `count` is zero.
    pub fn threads(mut self, count: usize) -> Self {
        assert!(count > 0, "a blocking stage needs at least one thread");
        self.threads = count;
        self
    }

    /// The maximum number of calls, from all processors, that may wait for a thread; [`DEFAULT_BLOCKING_QUEUE`] by
    /// default. Further calls fail with [`BlockingError::Full`].
    ///
    /// # Panics
    /// If `bound` is zero.
    pub fn queue(mut self, bound: usize) -> Self {
        assert!(bound > 0, "the queue of a blocking stage needs a capacity of at least 1");
        self.queue = bound;
        self
    }

    /// Abandons started calls whose caller has dropped them or has ended: neither the end of the caller's session nor a
    /// drain nor the end of the program waits for them. Their threads exit after the call. Use it for calls that may
    /// take long and have no side effects, such as a lookup in the system's resolver.
    pub fn detached(mut self) -> Self {
        self.detached = true;
        self
    }

    /// Keeps the threads to the slow cores of a machine that has cores of several speeds, as [`use_slow_cores`] does. Use
    /// it for calls for which no request waits, such as writing a log.
    pub fn background(mut self) -> Self {
        self.use_cores = use_slow_cores;
        self
    }

    /// Declares the stage. All threads access `state` concurrently as `&S`. Use [`PerThread`] to give each thread its
    /// own state.
    pub fn state<S: Send + Sync + 'static>(self, state: S) -> BlockingStage<S> {
        let detached = self.detached;
        let pool = Pool::new(self.name, self.threads, self.queue, detached, self.use_cores);
        let inner = Inner { pool, state: Arc::new(state), name: self.name };
        let stage = self.graph.shared(self.name, inner);
        // A thread has no processor, so it cannot invoke operations.
        self.graph.calls(stage, ());
        BlockingStage { stage, detached }
    }
}

/// State of the underlying stage.
pub(crate) struct Inner<S> {
    pool: Arc<Pool>,
    state: Arc<S>,
    name: &'static str,
}

/// Handle of a blocking stage.
///
/// ```compile_fail
/// fn leaves_its_thread(stage: phalanx::blocking::BlockingStage<()>, here: std::rc::Rc<u32>) {
///     let call = stage.call(move |_| drop(here)); // a capture is not `Send`
/// }
/// ```
pub struct BlockingStage<S> {
    stage: SharedStage<Inner<S>>,
    detached: bool,
}

impl<S> Clone for BlockingStage<S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for BlockingStage<S> {}

impl<S> Handles for BlockingStage<S> {
    fn add_to(&self, set: &mut HandleSet) {
        self.stage.add_to(set);
    }
}

/// The reason why a blocking call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BlockingError {
    /// The call panicked. Its thread continues with other calls.
    #[error("a blocking call of stage \"{stage}\" panicked: {message}")]
    Panicked {
        /// The stage's name.
        stage: &'static str,
        /// The panic message, if it is a string.
        message: Box<str>,
    },
    /// The queue was full ([`BlockingOptions::queue`]), and the call was rejected.
    #[error(
        "the queue of blocking stage \"{stage}\" is full (capacity {bound}); raise BlockingOptions::queue"
    )]
    Full {
        /// The stage's name.
        stage: &'static str,
        /// The bound.
        bound: usize,
    },
    /// The stage has no thread, and the system cannot create one.
    #[error("cannot create a thread for blocking stage \"{stage}\"")]
    NoThread {
        /// The stage's name.
        stage: &'static str,
    },
    /// The stage's operation was rejected or ended.
    #[error(transparent)]
    Call(#[from] CallError),
}
