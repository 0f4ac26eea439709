//! Running a program: threads, drivers, signals and shutdown.
//!
//! The caller's thread becomes the supervisor:
//!
//! 1. It starts a thread for each processor and waits until all have started.
//! 2. The first signal, or [`Control::drain`], starts the drain: listeners stop and operations finish.
//! 3. At the deadline, or at a second signal, the remaining operations are ended.
//! 4. If a processor still makes no progress, the supervisor reports its operation. It then exits the process if the
//!    runtime handles signals (see [`EXIT_STUCK`]).

pub(crate) mod block_on;
mod observation;
mod placement;
mod ranges;

#[cfg(feature = "admin")]
use std::hash::{BuildHasher, RandomState};
#[cfg(feature = "admin")]
use std::net::SocketAddr;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

#[doc(inline)]
pub use phalanx_core::{
    Control, Indicators, Measured, Mix, PanicReport, Phase, Point, Setting, TrafficProfile, pareto,
};
use phalanx_core::{Graph, ProcessorBuilder};
use phalanx_driver::Config;
#[doc(inline)]
pub use phalanx_driver::{DriverChoice, DriverKind, release_free_memory, use_all_cores};

#[cfg(feature = "admin")]
use crate::admin;
use crate::admin::Admin;
#[cfg(feature = "admin")]
pub use crate::admin::{AdminRequest, AdminResponse};
pub use crate::cores::ActiveProcessors;
use crate::cores::Seats;
pub use crate::diagnostics::{DEFAULT_STALL_THRESHOLD, END_LIMIT, EXIT_STUCK, report};
use crate::diagnostics::{DeadlockDetector, PanicHook, StallCounts, StallDetector};
use crate::io::{Loads, Placement, active_changed};
use crate::machine::declare_machine;
pub use crate::machine::{Fingerprint, raise_open_files};
use crate::metrics::Registered;
pub use crate::program::{ExitReport, Leaks, RunError, StartContext, StartError, Started};
use crate::scaling::{Automatic, Profiled, Scaler};
pub use crate::scaling::{PROFILE_VARIABLE, PlacementMode, Totals};
#[cfg(feature = "admin")]
pub use crate::scaling::{ProfileError, ProfileFile};
use crate::supervisor::{Signals, SupervisorIdle, Watched, supervise};
use crate::worker::{ThreadScope, WorkerOptions, WorkerThread};

/// Default of [`Runtime::spin`], the longest time for which an idle processor polls before it parks: 20 µs.
pub const DEFAULT_SPIN: Duration = Duration::from_micros(20);
/// Default of [`Runtime::shutdown_timeout`], the time for a graceful shutdown: 10 s.
pub const DEFAULT_SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);

/// Default of [`Runtime::region`], the bytes of each processor's memory region: 2 MiB, one huge page.
pub const DEFAULT_REGION: usize = 2 << 20;

/// Options for running a program: its processors, their drivers, and its shutdown.
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
    /// The defaults: one processor for each core available to this process, its threads not pinned; io_uring if
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
            worker: WorkerOptions {
                config: Config::default(),
                spin: DEFAULT_SPIN,
                coalesce: Duration::ZERO,
                region: DEFAULT_REGION,
                panics: PanicHook::default(),
                scope: ThreadScope::default(),
            },
        }
    }

    /// Number of processors: 1 to 1024.
    ///
    /// # Errors
    /// Running fails with [`RunError::OutOfRange`] for another number.
    #[must_use]
    pub fn processors(mut self, count: usize) -> Self {
        self.processors = count;
        self
    }

    /// Driver of all processors.
    #[must_use]
    pub fn driver(mut self, choice: DriverChoice) -> Self {
        self.driver = choice;
        self
    }

    /// Whether each processor's thread is pinned to a core of its own, if there are enough cores: false by
    /// default. Fast cores that share a cache are used first, then those of other caches, slow cores, and
    /// further threads of the same physical cores (SMT). Pinning saves time on a machine that runs nothing else. Otherwise
    /// a pinned thread waits for its core while other cores are idle. A thread that an operation starts has this core,
    /// too, unless it calls [`use_all_cores`] first.
    #[must_use]
    pub fn pin(mut self, pin: bool) -> Self {
        self.pin = pin;
        self
    }

    /// Number of receive buffers per processor, and their size in bytes, which bounds the data of one
    /// receive. The default, 512 of 8 KiB, suits requests; use larger buffers for bulk data. When all are in
    /// use, receives wait.
    ///
    /// # Errors
    /// Running fails with [`RunError::OutOfRange`] if `count` is not in 1 to 32768 or `bytes` not in 1 to 2²⁴.
    #[must_use]
    pub fn receive_buffers(mut self, count: u16, bytes: u32) -> Self {
        (self.worker.config.buffers, self.worker.config.buffer_size) = (count, bytes);
        self
    }

    /// The longest time for which an idle processor polls before it parks; [`DEFAULT_SPIN`] by default. Zero
    /// disables spinning. A processor spins for less time, or not at all, while spinning costs more processor
    /// time than the parks that it avoids.
    #[must_use]
    pub fn spin(mut self, spin: Duration) -> Self {
        self.worker.spin = spin;
        self
    }

    /// The coalescing limit: the longest time for which an idle processor waits for more I/O completions, so that cohorts grow
    /// below saturation. 1 ms makes the requests of a busy server about a third cheaper and delays responses
    /// by up to 1 ms (`phalanx-bench batch-delay`). The processor waits only if the recent completion rate would
    /// fill a cohort within this time. Timers and messages from other processors may be delayed by the same
    /// time. Zero, the default, disables it.
    #[must_use]
    pub fn coalesce(mut self, limit: Duration) -> Self {
        self.worker.coalesce = limit;
        self
    }

    /// The time limit of a graceful shutdown. Then the remaining operations are ended; see
    /// [`signals`](Self::signals) for operations that do not suspend.
    #[must_use]
    pub fn shutdown_timeout(mut self, limit: Duration) -> Self {
        self.shutdown_timeout = limit;
        self
    }

    /// Whether SIGINT and SIGTERM shut the program down, which is the default. The first signal starts the
    /// drain. The second, or the limit of [`shutdown_timeout`](Self::shutdown_timeout), ends the remaining operations.
    ///
    /// An operation that does not suspend cannot be ended. If signals are handled, the process exits with the
    /// code [`EXIT_STUCK`] after another signal, or after
    /// [`END_LIMIT`] without progress. Otherwise [`run`](Self::run) waits until
    /// the operation suspends. In both cases a line on stderr names each such operation: its stage, its type,
    /// and the file and line of its invocation.
    ///
    /// When no runtime of the process handles signals any more, they have the action that they had before the first one: the
    /// default one ends the process, even if a handler was installed through `signal-hook` (as tokio does) meanwhile. A
    /// process that installs its own handlers later passes false here.
    #[must_use]
    pub fn signals(mut self, handle: bool) -> Self {
        self.signals = handle;
        self
    }

    /// Bytes of a core's second-level cache, used unless [`Graph::cache_bytes`] is set. Zero, the default,
    /// asks the operating system.
    #[must_use]
    pub fn cache_bytes(mut self, bytes: usize) -> Self {
        self.cache_bytes = bytes;
        self
    }

    /// Bytes of each processor's memory region, which holds operations and [pooled
    /// objects](crate::stage::Pooled) in huge pages where the kernel provides them. The kernel commits pages
    /// when they are first used. Memory beyond the region comes from the allocator and is counted as
    /// `overflow_bytes`. The default is [`DEFAULT_REGION`]; zero disables it.
    ///
    /// ```
    /// let _runtime = phalanx::Runtime::new().region(16 << 20); // 16 MiB for each processor
    /// ```
    #[must_use]
    pub fn region(mut self, bytes: usize) -> Self {
        self.worker.region = bytes;
        self
    }

    /// Runs each processor inside of `scope`, on the processor's thread. `scope` must call its argument once, and may hold
    /// something meanwhile. A second call has no effect; without a call, or if `scope` panics, running fails. Code that
    /// needs tokio's reactor, such as reqwest or sqlx, finds the runtime that is entered here; that runtime's own threads
    /// do the I/O and wake operations of any processor. A second scope runs inside of the first.
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

    /// Runs `graph`. Calls `start` on each processor to start its first operations. Returns when every
    /// operation has ended, the kernel has returned all buffers, and the threads of blocking stages have
    /// exited. The [`ExitReport`] lists leaks; it is normally clean.
    ///
    /// # Errors
    /// [`RunError`] lists them: among others, no driver is available or can be opened, an option is out of its range, the
    /// admin address is taken, or `start` fails or panics on a processor, which ends the others.
    /// [`RunError::Nested`] on a thread that runs a processor, which the call would block.
    ///
    /// # Panics
    /// If the declaration of `graph` is incomplete: [`Graph::build`] lists the cases.
    pub fn run<F>(self, graph: Graph, start: F) -> Result<ExitReport, RunError>
    where
        F: Fn(&StartContext) -> Result<(), StartError> + Send + Sync,
    {
        self.run_and(graph, start, |_| ())
    }

    /// Like [`run`](Self::run), and calls `ready` once every processor has started.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    ///
    /// # Panics
    /// As [`run`](Self::run), and if `ready` panics, after the program has ended.
    pub fn run_and<F>(
        self,
        mut graph: Graph,
        start: F,
        ready: impl FnOnce(&Started),
    ) -> Result<ExitReport, RunError>
    where
        F: Fn(&StartContext) -> Result<(), StartError> + Send + Sync,
    {
        if crate::io::is_entered() {
            return Err(RunError::Nested);
        }
        self.check_ranges()?;
        let profiled = self.profiling_setting()?;
        let mode = if profiled.is_some() { PlacementMode::Off } else { self.placement };
        let profile = self.read_profile()?;
        let (kind, fallback) = phalanx_driver::choose(self.driver).map_err(RunError::Driver)?;
        #[cfg(feature = "admin")]
        let admin = self.admin.map(|address| Admin::declare(&mut graph, address)).transpose()?;
        #[cfg(not(feature = "admin"))]
        let admin: Option<Admin> = None;
        let cores = declare_machine(&mut graph, self.cache_bytes);
        let builders = graph.build(self.processors);
        let control = builders[0].control();
        // Declared last. A stage of the program may have the same name.
        let admin_stage = admin.as_ref().map(|_| control.stages().count() - 1);
        let calls: Vec<_> = builders.iter().map(|_| Arc::new(AtomicU64::new(0))).collect();
        let ids = || builders.iter().map(ProcessorBuilder::id);
        let seats = Seats::new(self.processors, self.pin);
        let started = Started {
            control: control.clone(),
            active: ActiveProcessors::new(
                ids(),
                Some(seats),
                self.worker.idle_limits(),
                active_changed,
            ),
            driver: kind,
            fallback,
            #[cfg(feature = "admin")]
            admin: admin.as_ref().map(Admin::address),
        };
        let (active, loads) = (started.active.clone(), Loads::Measured(control.clone()));
        let placement = Placement::new(ids(), cores, active.clone(), loads);
        let epoch = Instant::now();
        let stalls = StallCounts::new(&control);
        let watch = (!self.stall_threshold.is_zero())
            .then(|| StallDetector::new(self.stall_threshold, &control, stalls.clone()));
        let deadlocks = watch.is_some().then(DeadlockDetector::default);
        let automatic = Automatic::new(mode, self.min_active, placement.saturated(), profile);
        let is_polled = watch.is_some() || automatic.is_some();
        let idle = is_polled.then(|| SupervisorIdle::new(self.processors));
        #[cfg(feature = "admin")]
        if let (Some(admin), Some(stage)) = (&admin, admin_stage) {
            admin.describe(admin::Source {
                stage,
                control: control.clone(),
                driver: kind,
                epoch,
                run: RandomState::new().hash_one(epoch),
                system_calls: calls.clone(),
                stalls,
                pages: self.admin_pages.clone(),
                metrics: Automatic::register(
                    automatic.as_deref(),
                    placement.register(self.metrics.clone()),
                ),
                active: active.clone(),
                placement: placement.clone(),
                automatic: automatic.clone(),
                hosts: admin::Hosts::new(self.admin_hosts.clone()),
            });
        }
        let (events, inbox) = channel();
        let _signals = if self.signals {
            Some(Signals::listen(events.clone()).map_err(RunError::Signals)?)
        } else {
            None
        };
        std::thread::scope(|scope| {
            let (mut running, mut spawned) = (0, Ok(()));
            for (builder, calls) in builders.into_iter().zip(calls) {
                let (events, admin, start) = (events.clone(), admin.as_ref(), &start);
                let thread =
                    std::thread::Builder::new().name(format!("processor-{}", builder.index()));
                let idle = idle.clone();
                let saturation =
                    automatic.as_ref().map(|automatic| automatic.probe(builder.index()));
                let (placement, active) = (placement.clone(), active.clone());
                let options = &self.worker;
                let worker = WorkerThread {
                    builder,
                    kind,
                    epoch,
                    calls,
                    idle,
                    saturation,
                    placement,
                    active,
                    options,
                };
                match thread.spawn_scoped(scope, move || worker.run(&events, admin, start)) {
                    Ok(_) => running += 1,
                    Err(error) => {
                        control.end();
                        spawned = Err(RunError::Thread(error));
                        break;
                    }
                }
            }
            drop(events);
            let starting = self.processors;
            let scaler = automatic.map(|automatic| {
                Scaler::new(automatic, &control, active, placement, epoch, admin_stage)
            });
            let watched = Watched {
                starting,
                running,
                drain: self.shutdown_timeout,
                stalls: watch,
                deadlocks,
                scaler,
                idle,
                exits: self.signals,
            };
            let result = supervise(watched, &inbox, &control, || {
                if let Some(setting) = profiled.and_then(|profiled| profiled.setting) {
                    started.active.apply(setting);
                }
                ready(&started);
            });
            spawned.and(result)
        })
    }
}

/// The number of the processor that runs this operation, from zero.
///
/// # Panics
/// Outside a runtime's processor.
pub fn processor() -> usize {
    crate::io::with(crate::io::Io::index)
}
