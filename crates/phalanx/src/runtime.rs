//! Running a program: threads, drivers, signals, and the end.
//!
//! The caller's thread becomes the supervisor. It starts a thread for each processor, waits until
//! all have started, and then for the end: a first signal (or [`Control::drain`]) asks the program
//! to finish; at the deadline, or at a second signal, what is left is ended. What does not end then is
//! reported, and the process exited if it is the runtime's ([`crate::stuck`]).

#[cfg(feature = "admin")]
use std::net::SocketAddr;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use phalanx_core::Graph;
#[doc(inline)]
pub use phalanx_core::{Control, PanicReport, Phase};
use phalanx_driver::Config;
#[doc(inline)]
pub use phalanx_driver::{DriverChoice, DriverKind};

#[cfg(feature = "admin")]
use crate::admin;
use crate::admin::Admin;
use crate::cache;
pub use crate::error::{RunError, StartError};
pub use crate::exit_report::{ExitReport, Leaks};
use crate::metrics::Counter;
use crate::panics::PanicHook;
pub use crate::rlimit::raise_open_files;
use crate::signals::Signals;
pub use crate::stall_detector::DEFAULT_STALL_THRESHOLD;
use crate::stall_detector::{StallCounts, StallDetector};
pub use crate::stuck::{END_LIMIT, EXIT_STUCK};
use crate::supervisor::{Watched, supervise};
use crate::supervisor_idle::SupervisorIdle;
pub use crate::worker_thread::StartContext;
use crate::worker_thread::WorkerThread;

/// The longest time for which an idle processor polls before it sleeps, unless [`Runtime::spin`] says
/// otherwise: 20 µs.
pub const DEFAULT_SPIN: Duration = Duration::from_micros(20);
/// How long a program may finish what is under way, unless told otherwise.
pub const DEFAULT_DRAIN: Duration = Duration::from_secs(10);

/// Bytes of each processor's region, unless told otherwise: a huge page.
pub const DEFAULT_REGION: usize = 2 << 20;

/// How a program is run: its processors, their drivers, and its end.
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
    pub(crate) processors: usize,
    driver: DriverChoice,
    pub(crate) pin: bool,
    pub(crate) spin: Duration,
    pub(crate) gather: Duration,
    drain: Duration,
    signals: bool,
    #[cfg(feature = "admin")]
    admin: Option<SocketAddr>,
    #[cfg(feature = "admin")]
    admin_hosts: Vec<String>,
    shown: Vec<Counter>,
    stall_threshold: Duration,
    cache_bytes: usize,
    pub(crate) region: usize,
    pub(crate) panics: PanicHook,
    pub(crate) config: Config,
}

impl Default for Runtime {
    fn default() -> Self {
        Self::new()
    }
}

/// A program that is up.
pub struct Started {
    /// A handle on the program.
    pub control: Control,
    /// The driver of all its processors.
    pub driver: DriverKind,
    /// Why it is not the driver that would be preferred, in a line for the log.
    pub fallback: Option<String>,
    /// Where the admin pages are.
    #[cfg(feature = "admin")]
    pub admin: Option<SocketAddr>,
}

impl Runtime {
    /// One processor for each core that this process may use; io_uring if there is one; pinned;
    /// ended by SIGINT and SIGTERM.
    pub fn new() -> Self {
        Self {
            processors: std::thread::available_parallelism().map_or(1, NonZero::get),
            driver: DriverChoice::Auto,
            pin: true,
            spin: DEFAULT_SPIN,
            gather: Duration::ZERO,
            drain: DEFAULT_DRAIN,
            signals: true,
            #[cfg(feature = "admin")]
            admin: None,
            #[cfg(feature = "admin")]
            admin_hosts: Vec::new(),
            shown: Vec::new(),
            stall_threshold: DEFAULT_STALL_THRESHOLD,
            cache_bytes: 0,
            region: DEFAULT_REGION,
            panics: PanicHook::default(),
            config: Config::default(),
        }
    }

    /// How many processors: 1 to 1024.
    #[must_use]
    pub fn processors(mut self, count: usize) -> Self {
        self.processors = count;
        self
    }

    /// Which driver; one decision for all processors.
    #[must_use]
    pub fn driver(mut self, choice: DriverChoice) -> Self {
        self.driver = choice;
        self
    }

    /// Whether each processor's thread is bound to a core of its own (where there are enough).
    #[must_use]
    pub fn pin(mut self, pin: bool) -> Self {
        self.pin = pin;
        self
    }

    /// Buffers that each processor receives into, and the bytes in each: the most that one receive
    /// gives. The default, 512 of 8 KiB, is for requests; larger ones are for whoever receives much
    /// at a time. When all are in use, receives wait.
    ///
    /// # Errors
    /// Running fails with [`RunError::Driver`] for numbers other than 1 to 32768 and 1 to 2²⁴.
    #[must_use]
    pub fn receive_buffers(mut self, count: u16, bytes: u32) -> Self {
        (self.config.buffers, self.config.buffer_size) = (count, bytes);
        self
    }

    /// The longest time for which an idle processor polls before it sleeps; [`DEFAULT_SPIN`] by
    /// default, and zero for none. A processor polls for less, or not at all, while polling costs more
    /// processor time than the sleeps that it saves.
    #[must_use]
    pub fn spin(mut self, spin: Duration) -> Self {
        self.spin = spin;
        self
    }

    /// How long a processor that has nothing left to do may wait for more than one completion of I/O,
    /// so that cohorts grow where load is below saturation: a millisecond makes requests of a busy
    /// server cheaper by a third and their answers later by as much (`phalanx bench dial`). It waits only where
    /// what came lately fills a cohort within this time. Timers, and what other processors send, may
    /// be late by as much. Zero, the default, never waits.
    #[must_use]
    pub fn coalesce(mut self, limit: Duration) -> Self {
        self.gather = limit;
        self
    }

    /// How long the program may finish what is under way before it is ended. What happens to an
    /// operation that does not suspend even then, [`signals`](Self::signals) says.
    #[must_use]
    pub fn drain(mut self, limit: Duration) -> Self {
        self.drain = limit;
        self
    }

    /// Whether SIGINT and SIGTERM end the program, which is the default. The first asks it to finish.
    /// The second ends it, as does the limit of [`drain`](Self::drain).
    ///
    /// An operation that does not suspend cannot be ended. With signals handled, the process is the
    /// runtime's: after the end, another signal, or [`END_LIMIT`](crate::runtime::END_LIMIT) without progress,
    /// exits it with the code [`EXIT_STUCK`](crate::runtime::EXIT_STUCK). Without, [`run`](Self::run) waits
    /// for as long as the operation takes. In both cases a line on stderr names each operation (its
    /// stage, its type, and the file and line of its invocation).
    #[must_use]
    pub fn signals(mut self, handle: bool) -> Self {
        self.signals = handle;
        self
    }

    /// Operations that run for longer than this without suspending are told on stderr, with their
    /// processor, stage and name, while they run and again when they have ended, and are counted in
    /// the snapshot. The default is [`DEFAULT_STALL_THRESHOLD`]; one is found after at most one and
    /// a half times the limit. [`Duration::ZERO`] looks for none.
    #[must_use]
    pub fn stall_threshold(mut self, limit: Duration) -> Self {
        self.stall_threshold = limit;
        self
    }

    /// Calls `hook` for each panic that ended an operation, a cohort's handler or a stage's hook, on
    /// the processor's thread when its cohort is over. A line on stderr and an event for `tracing`
    /// tell the same. The hook must not wait; a panic in it is contained.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU64, Ordering};
    /// use phalanx::{Graph, Runtime};
    ///
    /// static PANICS: AtomicU64 = AtomicU64::new(0);
    /// let mut graph = Graph::new();
    /// let work = graph.shared("work", ());
    /// let runtime = Runtime::new().processors(1).on_panic(|report| {
    ///     assert_eq!((report.stage, &*report.message), ("work", "by intent"));
    ///     PANICS.fetch_add(1, Ordering::Relaxed);
    /// });
    /// runtime.run(graph, move |start| {
    ///     let control = start.control();
    ///     work.dispatch(move |_| async move {
    ///         control.drain();
    ///         panic!("by intent"); // nobody waits for it
    ///     })?;
    ///     Ok(())
    /// })?;
    /// assert_eq!(PANICS.load(Ordering::Relaxed), 1);
    /// # Ok::<(), phalanx::runtime::RunError>(())
    /// ```
    #[must_use]
    pub fn on_panic(mut self, hook: impl Fn(&PanicReport) + Send + Sync + 'static) -> Self {
        self.panics = PanicHook::new(hook);
        self
    }

    /// Bytes of a core's second-level cache, in place of what the machine says, where the graph says
    /// nothing by [`Graph::cache_bytes`]. Zero, the default, asks the machine.
    #[must_use]
    pub fn cache_bytes(mut self, bytes: usize) -> Self {
        self.cache_bytes = bytes;
        self
    }

    /// Bytes of memory for each processor in which its operations and [objects](crate::stage::Pooled) live, in
    /// huge pages where the kernel has them; it takes them up as it uses them. What is more lives
    /// elsewhere and is counted as spilled. The default is [`DEFAULT_REGION`]; zero makes none.
    #[must_use]
    pub fn region(mut self, bytes: usize) -> Self {
        self.region = bytes;
        self
    }

    /// Shows the program at this address: live at `/`, and as `/snapshot.json`, `/metrics`,
    /// `/graph.dot` and `/trace.json`. They tell whoever can connect all about the program's load, so
    /// keep it to the loopback.
    #[cfg(feature = "admin")]
    #[must_use]
    pub fn admin(mut self, address: Option<SocketAddr>) -> Self {
        self.admin = address;
        self
    }

    /// Host names under which the admin pages answer, beside any IP address and `localhost`: names without
    /// ports, such as the one by which a scraper reaches this program. Requests for another host are
    /// answered with 403, as a web page could read the admin pages by having its own name lead to them (DNS
    /// rebinding). The default is none.
    #[cfg(feature = "admin")]
    #[must_use]
    pub fn admin_hosts<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.admin_hosts = names.into_iter().map(Into::into).collect();
        self
    }

    /// Shows `counter` too, in `/snapshot.json` and `/metrics`.
    #[must_use]
    pub fn register_counter(mut self, counter: &Counter) -> Self {
        // Beside others of its name: they are one family.
        let last = self.shown.iter().rposition(|other| other.name() == counter.name());
        let at = last.map_or(self.shown.len(), |last| last + 1);
        self.shown.insert(at, counter.clone());
        self
    }

    /// Runs `graph`. `start` is called on each processor, to invoke its first operations. Returns
    /// when every operation has ended, the kernel has given back what it had, and the threads of
    /// blocking stages are done; [`ExitReport`] says what is left, which is nothing.
    ///
    /// # Errors
    /// When there is no driver, or `start` fails on some processor; the others are ended then.
    /// [`RunError::Nested`] inside an operation of a running program, whose processor it would keep.
    pub fn run<F>(self, graph: Graph, start: F) -> Result<ExitReport, RunError>
    where
        F: Fn(&StartContext) -> Result<(), StartError> + Send + Sync,
    {
        self.run_and(graph, start, |_| ())
    }

    /// As [`run`](Self::run), and calls `ready` once every processor has started.
    ///
    /// # Errors
    /// As [`run`](Self::run).
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
        let (kind, fallback) = phalanx_driver::choose(self.driver).map_err(RunError::Driver)?;
        #[cfg(feature = "admin")]
        let admin = self.admin.map(|address| Admin::declare(&mut graph, address)).transpose()?;
        #[cfg(not(feature = "admin"))]
        let admin: Option<Admin> = None;
        graph.measured_cache_bytes(match self.cache_bytes {
            0 => cache::second_level(),
            bytes => bytes,
        });
        let seeds = graph.build(self.processors);
        let control = seeds[0].control();
        let calls: Vec<_> = seeds.iter().map(|_| Arc::new(AtomicU64::new(0))).collect();
        let up = Started {
            control: control.clone(),
            driver: kind,
            fallback,
            #[cfg(feature = "admin")]
            admin: admin.as_ref().map(Admin::address),
        };
        let epoch = Instant::now();
        let long = StallCounts::new(&control);
        let watch = (!self.stall_threshold.is_zero()).then(|| {
            let watch = StallDetector::new(self.stall_threshold, &control, long.clone());
            (watch, SupervisorIdle::new(self.processors))
        });
        #[cfg(feature = "admin")]
        if let Some(admin) = &admin {
            admin.describe(admin::Source {
                control: control.clone(),
                driver: kind,
                epoch,
                system_calls: calls.clone(),
                long,
                shown: self.shown.clone(),
                hosts: admin::Hosts::new(self.admin_hosts.clone()),
            });
        }
        let (events, inbox) = channel();
        let _signals = match self.signals {
            true => Some(Signals::listen(events.clone()).map_err(RunError::Signals)?),
            false => None,
        };
        std::thread::scope(|scope| {
            let (mut running, mut refused) = (0, Ok(()));
            for (seed, calls) in seeds.into_iter().zip(calls) {
                let (events, admin, start) = (events.clone(), admin.as_ref(), &start);
                let thread =
                    std::thread::Builder::new().name(format!("processor-{}", seed.index()));
                let rest = watch.as_ref().map(|(_, rest)| rest.clone());
                let launch = WorkerThread { seed, kind, epoch, calls, rest, runtime: &self };
                match thread.spawn_scoped(scope, move || launch.run(&events, admin, start)) {
                    Ok(_) => running += 1,
                    Err(error) => {
                        control.end();
                        refused = Err(RunError::Thread(error));
                        break;
                    }
                }
            }
            drop(events);
            let starting = self.processors;
            let watched =
                Watched { starting, running, drain: self.drain, watch, exits: self.signals };
            let result = supervise(watched, &inbox, &control, || ready(&up));
            refused.and(result)
        })
    }
}
