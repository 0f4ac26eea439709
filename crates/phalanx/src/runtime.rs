//! Running a program: threads, drivers, signals, and the end.
//!
//! The caller's thread becomes the supervisor. It starts a thread for each processor, waits until
//! all have started, and then for the end: a first signal (or [`Control::drain`]) asks the program
//! to finish; at the deadline, or at a second signal, what is left is ended.

use std::io;
use std::net::SocketAddr;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use phalanx_core::{CallError, Control, Graph, Phase, Seed};
use phalanx_driver::{Choice, Config, Kind};

use crate::admin::{self, Admin};
use crate::io::Io;
use crate::signals::Signals;
use crate::world::{DriverWorld, NoWorld};

/// How long a processor looks for work before it sleeps, unless told otherwise. Longer saves
/// latency after short pauses, and costs processor time.
pub const DEFAULT_SPIN: Duration = Duration::from_micros(20);
/// How long a program may finish what is under way, unless told otherwise.
pub const DEFAULT_DRAIN: Duration = Duration::from_secs(10);

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
/// # Ok::<(), phalanx::RunError>(())
/// ```
#[derive(Debug)]
pub struct Runtime {
    processors: usize,
    driver: Choice,
    pin: bool,
    spin: Duration,
    drain: Duration,
    signals: bool,
    admin: Option<SocketAddr>,
    config: Config,
}

impl Default for Runtime {
    fn default() -> Self {
        Self::new()
    }
}

/// Why a program could not be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// No driver could be had.
    #[error("{0}")]
    Driver(#[source] io::Error),
    /// The address for the admin pages cannot be listened on.
    #[error("cannot listen on {address} for the admin pages: {source}")]
    Admin {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The program's own start failed on some processor.
    #[error("{0}")]
    Start(#[from] StartError),
    /// A processor's thread panicked outside of any operation: a fault of the runtime.
    #[error("processor {0} failed; its panic is above")]
    Processor(usize),
}

/// Why a program's start failed.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct StartError(Box<dyn std::error::Error + Send + Sync>);

impl From<io::Error> for StartError {
    fn from(error: io::Error) -> Self {
        Self(error.into())
    }
}

impl From<CallError> for StartError {
    fn from(error: CallError) -> Self {
        Self(error.into())
    }
}

/// What a program's start on one processor is told.
pub struct Start {
    index: usize,
    control: Control,
}

impl Start {
    /// The processor's number, from zero.
    pub fn processor(&self) -> usize {
        self.index
    }

    /// A handle on the whole program.
    pub fn control(&self) -> Control {
        self.control.clone()
    }
}

/// A program that is up.
pub struct Up {
    /// A handle on the program.
    pub control: Control,
    /// The driver of all its processors.
    pub driver: Kind,
    /// Why it is not the driver that would be preferred, in a line for the log.
    pub fallback: Option<String>,
    /// Where the admin pages are.
    pub admin: Option<SocketAddr>,
}

impl Runtime {
    /// One processor for each core that this process may use; io_uring if there is one; pinned;
    /// ended by SIGINT and SIGTERM.
    pub fn new() -> Self {
        Self {
            processors: std::thread::available_parallelism().map_or(1, NonZero::get),
            driver: Choice::Auto,
            pin: true,
            spin: DEFAULT_SPIN,
            drain: DEFAULT_DRAIN,
            signals: true,
            admin: None,
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
    pub fn driver(mut self, choice: Choice) -> Self {
        self.driver = choice;
        self
    }

    /// Whether each processor's thread is bound to a core of its own (where there are enough).
    #[must_use]
    pub fn pin(mut self, pin: bool) -> Self {
        self.pin = pin;
        self
    }

    /// How long a processor that finds nothing to do looks again before it sleeps.
    #[must_use]
    pub fn spin(mut self, spin: Duration) -> Self {
        self.spin = spin;
        self
    }

    /// How long the program may finish what is under way before it is ended.
    #[must_use]
    pub fn drain(mut self, limit: Duration) -> Self {
        self.drain = limit;
        self
    }

    /// Whether SIGINT and SIGTERM end the program: the first asks it to finish, the second ends it.
    #[must_use]
    pub fn signals(mut self, handle: bool) -> Self {
        self.signals = handle;
        self
    }

    /// Serves `/snapshot.json` and `/metrics` at this address. They tell whoever can connect all
    /// about the program's load, so keep it to the loopback.
    #[must_use]
    pub fn admin(mut self, address: Option<SocketAddr>) -> Self {
        self.admin = address;
        self
    }

    /// Runs `graph`. `start` is called on each processor, to invoke its first operations.
    ///
    /// # Errors
    /// When there is no driver, or `start` fails on some processor; the others are ended then.
    pub fn run<F>(self, graph: Graph, start: F) -> Result<(), RunError>
    where
        F: Fn(&Start) -> Result<(), StartError> + Send + Sync,
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
        ready: impl FnOnce(&Up),
    ) -> Result<(), RunError>
    where
        F: Fn(&Start) -> Result<(), StartError> + Send + Sync,
    {
        let (kind, fallback) = phalanx_driver::choose(self.driver).map_err(RunError::Driver)?;
        let admin = self.admin.map(|address| Admin::declare(&mut graph, address)).transpose()?;
        let seeds = graph.build(self.processors);
        let control = seeds[0].control();
        let calls: Vec<_> = seeds.iter().map(|_| Arc::new(AtomicU64::new(0))).collect();
        let up = Up {
            control: control.clone(),
            driver: kind,
            fallback,
            admin: admin.as_ref().map(Admin::address),
        };
        let epoch = Instant::now();
        if let Some(admin) = &admin {
            admin.describe(admin::Source {
                control: control.clone(),
                driver: kind,
                epoch,
                system_calls: calls.clone(),
            });
        }
        let (events, inbox) = channel();
        let _signals = self.signals.then(|| Signals::listen(events.clone())).transpose();
        std::thread::scope(|scope| {
            for (seed, calls) in seeds.into_iter().zip(calls) {
                let (events, admin, start) = (events.clone(), admin.as_ref(), &start);
                let thread =
                    std::thread::Builder::new().name(format!("processor-{}", seed.index()));
                let launch = Launch { seed, kind, epoch, calls, runtime: &self };
                thread
                    .spawn_scoped(scope, move || launch.run(&events, admin, start))
                    .expect("a thread for each processor");
            }
            drop(events);
            let result = self.supervise(&inbox, &control, || ready(&up));
            control.end();
            result
        })
    }

    /// Waits for the start of all processors, then for the end of all.
    fn supervise(
        &self,
        inbox: &Receiver<Event>,
        control: &Control,
        ready: impl FnOnce(),
    ) -> Result<(), RunError> {
        let (mut ready, mut starting, mut running) =
            (Some(ready), self.processors, self.processors);
        let mut deadline: Option<Instant> = None;
        let mut result = Ok(());
        while running > 0 {
            if deadline.is_none() && control.phase() > Phase::Running {
                deadline = Some(Instant::now() + self.drain);
            }
            // Without a signal the drain may be asked for by an operation: look now and then.
            let wait = deadline.map_or(Duration::from_millis(100), |deadline| {
                deadline.saturating_duration_since(Instant::now())
            });
            match inbox.recv_timeout(wait) {
                Ok(Event::Started) => {
                    starting -= 1;
                    if starting == 0
                        && let Some(ready) = ready.take()
                    {
                        ready();
                    }
                }
                Ok(Event::Exited(outcome)) => {
                    running -= 1;
                    if let Err(error) = outcome {
                        control.end();
                        result = result.and(Err(error));
                    }
                }
                Ok(Event::Signal) if control.phase() == Phase::Running => control.drain(),
                Ok(Event::Signal) | Err(RecvTimeoutError::Timeout) if deadline.is_some() => {
                    control.end();
                    deadline = Some(Instant::now() + Duration::from_secs(3600));
                }
                Ok(Event::Signal) | Err(RecvTimeoutError::Timeout) => (),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        result
    }
}

/// What the supervisor hears.
pub(crate) enum Event {
    Started,
    Exited(Result<(), RunError>),
    Signal,
}

/// One processor's thread.
struct Launch<'a> {
    seed: Seed,
    kind: Kind,
    epoch: Instant,
    calls: Arc<AtomicU64>,
    runtime: &'a Runtime,
}

impl Launch<'_> {
    fn run<F>(self, events: &Sender<Event>, admin: Option<&Admin>, start: &F)
    where
        F: Fn(&Start) -> Result<(), StartError>,
    {
        let index = self.seed.index();
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            self.serve(events, admin, start)
        }));
        let outcome = caught.unwrap_or(Err(RunError::Processor(index)));
        let _ = events.send(Event::Exited(outcome));
    }

    fn serve<F>(
        self,
        events: &Sender<Event>,
        admin: Option<&Admin>,
        start: &F,
    ) -> Result<(), RunError>
    where
        F: Fn(&Start) -> Result<(), StartError>,
    {
        let Self { seed, kind, epoch, calls, runtime } = self;
        let (index, control) = (seed.index(), seed.control());
        if runtime.pin {
            crate::pin::to_core(index, runtime.processors);
        }
        let driver = match phalanx_driver::open(kind, &runtime.config) {
            Ok(driver) => driver,
            Err(error) => {
                // The others wait until every processor has nothing left: this one too.
                control.end();
                seed.grow(Box::new(|| ())).run(&NoWorld, 0);
                return Err(RunError::Driver(error));
            }
        };
        let unparker = driver.unparker();
        let io = Io::new(driver);
        io.install();
        let processor = seed.grow(Box::new(move || unparker.unpark()));
        let world = DriverWorld::new(io, epoch, control.clone(), calls);
        let begin = || {
            if let (0, Some(admin)) = (index, admin) {
                admin.start()?;
            }
            start(&Start { index, control: control.clone() })
        };
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            processor.enter(begin).map_err(RunError::from)
        }));
        let started = caught.unwrap_or(Err(RunError::Processor(index)));
        match &started {
            Ok(()) => drop(events.send(Event::Started)),
            Err(_) => control.end(),
        }
        // Also when it was ended before it began: the others wait for it to say that it has nothing left.
        processor.run(&world, runtime.spin.as_nanos() as u64);
        // The processor's operations go before their driver does.
        drop(processor);
        Io::uninstall();
        started
    }
}
