//! Running a program: threads, drivers, signals and shutdown.
//!
//! The caller's thread becomes the supervisor:
//!
//! 1. It starts a thread for each processor and waits until all have started.
//! 2. The first signal, or [`Control::drain`], starts the drain: listeners stop and operations finish.
//! 3. At the deadline, or at a second signal, the remaining operations are cancelled.
//! 4. If a processor still makes no progress, the supervisor reports its operation. It then exits the process, if the
//!    runtime handles signals (see [`EXIT_STUCK`]).

pub(crate) mod block_on;
mod observation;
mod placement;
mod prefetch;
mod ranges;
mod run;

#[cfg(feature = "admin")]
use std::net::SocketAddr;
use std::num::NonZero;
use std::time::Duration;

#[doc(inline)]
pub use phalanx_core::{
    Control, Indicators, Measured, Mix, PanicReport, Phase, Point, Setting, TrafficProfile, pareto,
};
#[doc(inline)]
pub use phalanx_driver::{DriverChoice, DriverKind, release_free_memory, use_all_cores};

#[cfg(feature = "admin")]
use crate::admin;
#[cfg(feature = "admin")]
pub use crate::admin::{AdminRequest, AdminResponse};
pub use crate::cores::{ActiveProcessors, use_slow_cores};
pub use crate::diagnostics::{DEFAULT_STALL_THRESHOLD, END_LIMIT, EXIT_STUCK, report};
pub use crate::machine::{Fingerprint, raise_open_files};
use crate::metrics::Registered;
pub use crate::program::{ExitReport, Leaks, RunError, StartContext, StartError, Started};
use crate::scaling::Profiled;
pub use crate::scaling::{PROFILE_VARIABLE, PlacementMode, Totals};
#[cfg(feature = "admin")]
pub use crate::scaling::{ProfileError, ProfileFile};
use crate::worker::WorkerOptions;

/// The default of [`Runtime::spin`], the maximum time for which an idle processor polls before it parks: 20 µs.
pub const DEFAULT_SPIN: Duration = Duration::from_micros(20);
/// The default of [`Runtime::shutdown_timeout`], the time limit of a graceful shutdown: 10 s.
pub const DEFAULT_SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);

/// The default of [`Runtime::region`], the size in bytes of each processor's memory region: 2 MiB (one huge page).
pub const DEFAULT_REGION: usize = 2 << 20;

/// Options for running a program: its processors, their drivers and its shutdown.
///
/// ```
/// use phalanx::{Graph, Runtime};
///
/// let mut graph = Graph::new();
/// let greeter = graph.shared("greeter", "hello");
/// Runtime::new().processors(1).run(graph, move |start| {
///     let control = start.control();
///     greeter.dispatch(move |greeting| async move {
///         assert_eq!(*greeting, "hello");
///         control.drain();
///     })?;
///     Ok(())
/// })?;
/// # Ok::<(), phalanx::runtime::RunError>(())
/// ```
#[derive(Debug)]
pub struct Runtime {
    processors: usize,
    driver: DriverChoice,
    pin: bool,
    placement: PlacementMode,
    min_active: usize,
    #[cfg(feature = "admin")]
    profile: Option<std::path::PathBuf>,
    profiled: Option<Result<Profiled, String>>,
    shutdown_timeout: Duration,
    signals: bool,
    #[cfg(feature = "admin")]
    admin: Option<SocketAddr>,
    #[cfg(feature = "admin")]
    admin_hosts: Vec<String>,
    #[cfg(feature = "admin")]
    admin_pages: admin::CustomPages,
    metrics: Registered,
    stall_threshold: Duration,
    cache_bytes: usize,
    worker: WorkerOptions,
}

impl Default for Runtime {
    fn default() -> Self {
        Self::new()
    }
}

impl Runtime {
    /// The default options: one processor for each core available to this process, without pinning; io_uring if
    /// available; SIGINT and SIGTERM shut the program down.
    pub fn new() -> Self {
        Self {
            processors: std::thread::available_parallelism().map_or(1, NonZero::get),
            driver: DriverChoice::Auto,
            pin: false,
            placement: PlacementMode::Off,
            min_active: 1,
            #[cfg(feature = "admin")]
            profile: None,
            profiled: None,
            shutdown_timeout: DEFAULT_SHUTDOWN_TIMEOUT,
            signals: true,
            #[cfg(feature = "admin")]
            admin: None,
            #[cfg(feature = "admin")]
            admin_hosts: Vec::new(),
            #[cfg(feature = "admin")]
            admin_pages: admin::CustomPages::default(),
            metrics: Registered::default(),
            stall_threshold: DEFAULT_STALL_THRESHOLD,
            cache_bytes: 0,
            worker: WorkerOptions::new(DEFAULT_SPIN, DEFAULT_REGION),
        }
    }

    /// Sets the number of processors, from 1 to 1024.
    ///
    /// # Errors
    /// Running fails with [`RunError::OutOfRange`] for another number.
    #[must_use]
    pub fn processors(mut self, count: usize) -> Self {
        self.processors = count;
        self
    }

    /// Sets the driver of all processors.
    #[must_use]
    pub fn driver(mut self, choice: DriverChoice) -> Self {
        self.driver = choice;
        self
    }

    /// Sets whether each processor's thread is pinned to a separate core, if there are enough cores. False by default.
    /// Fast cores that share a cache are used first, then cores with other caches, slow cores, and finally the other
    /// hardware threads (SMT) of the same cores. Pinning saves time on a machine that runs nothing else. On a shared
    /// machine, a pinned thread may wait for its core while other cores are idle. A thread started by an operation
    /// inherits the pinning unless it calls [`use_all_cores`] first.
    #[must_use]
    pub fn pin(mut self, pin: bool) -> Self {
        self.pin = pin;
        self
    }

    /// Sets the number of receive buffers per processor, and their size in bytes, which bounds the data of one receive.
    /// The default, 512 buffers of 8 KiB, suits requests; use larger buffers for bulk data. When all are in use,
    /// receives wait.
    ///
    /// # Errors
    /// Running fails with [`RunError::OutOfRange`] if `count` is not in 1 to 32768 or `bytes` not in 1 to 2²⁴.
    #[must_use]
    pub fn receive_buffers(mut self, count: u16, bytes: u32) -> Self {
        (self.worker.config.buffers, self.worker.config.buffer_size) = (count, bytes);
        self
    }

    /// Sets the maximum time for which an idle processor polls before it parks; [`DEFAULT_SPIN`] by default. Zero
    /// disables spinning. A processor spins for less time, or not at all, if spinning costs more CPU time than parking.
    #[must_use]
    pub fn spin(mut self, spin: Duration) -> Self {
        self.worker.spin = spin;
        self
    }

    /// Sets the coalescing limit: the maximum time for which an idle processor waits for more I/O completions.
    /// Coalescing increases cohort sizes when the server is not saturated. A limit of 1 ms makes the requests of a busy
    /// server about a third cheaper and delays responses by up to 1 ms (`phalanx-bench batch-delay`). The processor
    /// waits only if the recent completion rate would fill a cohort within this time. Timers and messages from other
    /// processors may be delayed by the same time. Zero, the default, disables coalescing.
    #[must_use]
    pub fn coalesce(mut self, limit: Duration) -> Self {
        self.worker.coalesce = limit;
        self
    }

    /// Sets the time limit of a graceful shutdown, after which the remaining operations are cancelled. See
    /// [`signals`](Self::signals) for operations that do not suspend.
    #[must_use]
    pub fn shutdown_timeout(mut self, limit: Duration) -> Self {
        self.shutdown_timeout = limit;
        self
    }

    /// Sets whether SIGINT and SIGTERM shut the program down. True by default. The first signal starts a drain. The
    /// second, or the limit of [`shutdown_timeout`](Self::shutdown_timeout), cancels the remaining operations.
    ///
    /// An operation that does not suspend cannot be cancelled. If signals are handled, the process exits with the code
    /// [`EXIT_STUCK`] after another signal, or after [`END_LIMIT`] without progress. Otherwise [`run`](Self::run) waits
    /// until the operation suspends. In both cases, a line on stderr identifies each such operation by its stage, its
    /// type, and the file and line of its invocation.
    ///
    /// When the last runtime that handles signals returns, the previous signal actions are restored. This discards
    /// handlers that were installed in the meantime, for example through `signal-hook` (as tokio does), and the default
    /// action ends the process. A process that installs its own handlers later should pass false.
    #[must_use]
    pub fn signals(mut self, handle: bool) -> Self {
        self.signals = handle;
        self
    }

    /// Sets the size in bytes of a core's second-level cache, which is used if
    /// [`Graph::cache_bytes`](crate::Graph::cache_bytes) is not set. Zero, the default, means the size that the operating
    /// system reports.
    #[must_use]
    pub fn cache_bytes(mut self, bytes: usize) -> Self {
        self.cache_bytes = bytes;
        self
    }

    /// Sets the size in bytes of each processor's memory region, which contains operations and [pooled
    /// objects](crate::stage::Pooled), in huge pages if the kernel provides them. The kernel commits pages when they
    /// are first used. When the region is full, further memory comes from the allocator and is counted as
    /// `overflow_bytes`. The default is [`DEFAULT_REGION`]; zero disables the region.
    ///
    /// ```
    /// let _runtime = phalanx::Runtime::new().region(16 << 20); // 16 MiB for each processor
    /// ```
    #[must_use]
    pub fn region(mut self, bytes: usize) -> Self {
        self.worker.region = bytes;
        self
    }

    /// Runs each processor inside `scope`, on the processor's thread. `scope` must call its argument exactly once and
    /// may hold a guard during that call. Further calls have no effect; if there is no call, or if `scope` panics,
    /// running fails. For example, `scope` may enter a tokio runtime for code that needs tokio's reactor, such as
    /// reqwest or sqlx. The threads of that runtime then perform the I/O and wake operations of any processor. If this
    /// method is called again, the second scope runs inside the first.
    ///
    /// ```
    /// use std::time::Duration;
    /// use phalanx::Runtime;
    ///
    /// let side = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    /// let handle = side.handle().clone();
    /// let runtime = Runtime::new().processors(1).signals(false).thread_scope(move |run| {
    ///     let _entered = handle.enter();
    ///     run();
    /// });
    /// runtime.block_on(|_| (), |()| async {
    ///     tokio::time::sleep(Duration::from_millis(1)).await; // a timer of the side runtime
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn thread_scope(
        mut self,
        scope: impl Fn(&mut dyn FnMut()) + Send + Sync + 'static,
    ) -> Self {
        self.worker.scope = self.worker.scope.around(scope);
        self
    }
}

/// The number of the processor that runs this operation, from zero.
///
/// # Panics
/// If called outside a processor of a runtime.
pub fn processor() -> usize {
    crate::io::with(crate::io::Io::index)
}
