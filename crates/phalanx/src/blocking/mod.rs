//! Blocking stages: calls that cannot be made asynchronous, on threads of their own.
//!
//! A processor must never wait: all that is queued there would wait with it. What only comes as a
//! call that blocks (a resolver, a database's client, a compression of a large file) goes to a
//! blocking stage. To the rest of the program it is a stage like others, with its queue, waits and
//! operations in the snapshot; its operations hand the call to a thread and suspend.
//!
//! | file | idea |
//! |---|---|
//! | `call` | one call, from the caller to a thread and back |
//! | `pool` | the threads and their bounded queue |

mod call;
mod pool;

use std::sync::Arc;

use phalanx_core::{CallError, Graph, SharedStage};

pub use self::call::BlockingCall;
#[cfg(feature = "sim")]
pub(crate) use self::pool::Job;
pub(crate) use self::pool::{Pool, Pools, awaited_stages, contain};

/// The threads of a blocking stage that declares nothing else.
pub const DEFAULT_BLOCKING_THREADS: usize = 4;
/// The calls that may wait for a thread of a blocking stage that declares nothing else.
pub const DEFAULT_BLOCKING_QUEUE: usize = 1024;

/// Declares the next stage of `graph` as a blocking one: options first, then its
/// [state](BlockingOptions::state), which gives the handle.
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
///         // The system's resolver blocks; this processor goes on meanwhile.
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
    }
}

/// A blocking stage being declared: its options. Ends with [`state`](Self::state).
#[must_use = "the stage is declared by its state"]
pub struct BlockingOptions<'g> {
    graph: &'g mut Graph,
    name: &'static str,
    threads: usize,
    queue: usize,
}

impl BlockingOptions<'_> {
    /// The most threads, for all processors together; the default is
    /// [`DEFAULT_BLOCKING_THREADS`]. Each is started when a call finds no idle one.
    ///
    /// # Panics
    /// If `count` is zero.
    pub fn threads(mut self, count: usize) -> Self {
        assert!(count > 0, "at least one thread");
        self.threads = count;
        self
    }

    /// The most calls that may wait for a thread, from all processors together; the default is
    /// [`DEFAULT_BLOCKING_QUEUE`]. One more fails with [`BlockingError::Full`].
    ///
    /// # Panics
    /// If `bound` is zero.
    pub fn queue(mut self, bound: usize) -> Self {
        assert!(bound > 0, "a queue holds at least one call");
        self.queue = bound;
        self
    }

    /// Declares the stage. All its threads reach `state` as `&S`, at once.
    pub fn state<S: Send + Sync + 'static>(self, state: S) -> BlockingStage<S> {
        let pool = Pool::new(self.name, self.threads, self.queue);
        let inner = Inner { pool, state: Arc::new(state), name: self.name };
        BlockingStage(self.graph.shared(self.name, inner))
    }
}

/// What the operations of a blocking stage share.
pub(crate) struct Inner<S> {
    pool: Arc<Pool>,
    state: Arc<S>,
    name: &'static str,
}

/// A handle on a stage whose calls run on threads of their own.
///
/// ```compile_fail
/// fn leaves_its_thread(stage: phalanx::blocking::BlockingStage<()>, here: std::rc::Rc<u32>) {
///     let call = stage.call(move |_| drop(here)); // what goes to a thread is `Send`
/// }
/// ```
pub struct BlockingStage<S>(SharedStage<Inner<S>>);

impl<S> Clone for BlockingStage<S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for BlockingStage<S> {}

/// Why a blocking call has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BlockingError {
    /// The call panicked. It ended alone: its thread goes on.
    #[error("a blocking call of stage \"{stage}\" panicked: {message}")]
    Panicked {
        /// The stage's name.
        stage: &'static str,
        /// What the panic said, as far as it was text.
        message: Box<str>,
    },
    /// As many calls wait for a thread as may ([`BlockingOptions::queue`]); this one was not made.
    #[error("{bound} calls wait for a thread of stage \"{stage}\", and no more may")]
    Full {
        /// The stage's name.
        stage: &'static str,
        /// The bound.
        bound: usize,
    },
    /// The stage has no thread, and the system gives none.
    #[error("the system gives no thread to stage \"{stage}\"")]
    NoThread {
        /// The stage's name.
        stage: &'static str,
    },
    /// The stage's operation was refused or ended.
    #[error(transparent)]
    Call(#[from] CallError),
}
