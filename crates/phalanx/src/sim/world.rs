//! The description of a simulated world: a program, its files, its faults and its clients.

use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use fastrand::Rng;
use phalanx_core::{CallGraph, Graph};
use phalanx_driver::sim;

use super::client::{Net, Task};
use super::programs::launch::StartFn;
use super::programs::orders::Orders;
use super::{Faults, Listeners, fault};
use crate::fs::Dir;
use crate::program::{StartContext, StartError};

/// A function that examines the calls of a run.
pub(super) type CallGraphCheck = Box<dyn FnOnce(CallGraph)>;

/// Describes a world before it runs. See [`run`](super::run).
///
/// ```
/// use phalanx::sim::{self, Faults};
/// use phalanx::{Graph, SharedStage};
///
/// sim::explore(3, |world| {
///     let processors = 1 + world.draw(2) as usize;
///     world.set_processors(processors);
///     world.set_faults(Faults::NONE);
///     world.file("/etc/greeting", "hello");
///     let etc = world.directory("/etc");
///     let mut graph = Graph::new();
///     let stage: SharedStage<()> = graph.shared("read", ());
///     world.program(graph, move |_| {
///         let etc = etc.clone();
///         stage.dispatch(move |_| async move {
///             let file = etc.open_file(b"greeting", false).await.unwrap();
///             assert_eq!(file.read_at(0, 100).await.unwrap(), b"hello");
///         })?;
///         Ok(())
///     });
///     let net = world.net();
///     // The program drains when all clients have finished.
///     world.client(async move { net.sleep(std::time::Duration::from_secs(1)).await });
/// });
/// ```
pub struct World {
    pub(super) seed: u64,
    pub(super) rng: Rng,
    pub(super) outside: sim::World,
    pub(super) processors: usize,
    pub(super) panics: u32,
    pub(super) allows_panics: bool,
    pub(super) max_steps: u64,
    pub(super) is_steady: bool,
    pub(super) orders: Orders,
    pub(super) program: Option<(Graph, StartFn)>,
    pub(super) clients: Vec<Task>,
    pub(super) after_shutdown: Option<Box<dyn FnOnce()>>,
    pub(super) calls: Option<CallGraphCheck>,
    /// Whether all schedules are enumerated, instead of one drawn from the seed.
    pub(super) exhaustive: bool,
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let outside = sim::World::new(rng.u64(..));
        outside.set_faults(Faults::MILD);
        let processors = rng.usize(1..=3);
        fault::stop();
        Self {
            seed,
            rng,
            outside,
            processors,
            panics: 0,
            allows_panics: false,
            max_steps: 200_000,
            is_steady: false,
            orders: Orders::default(),
            program: None,
            clients: Vec::new(),
            after_shutdown: None,
            calls: None,
            exhaustive: false,
        }
    }

    /// A world for [`explore_all`](super::explore_all), with two processors, without faults and without choices by a
    /// seed.
    pub(super) fn exhaustive() -> Self {
        let world = Self::new(0);
        world.outside.set_faults(Faults::NONE);
        Self { processors: 2, exhaustive: true, ..world }
    }

    /// The seed of this run.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// A random number below `bound`, determined by the seed.
    ///
    /// # Panics
    /// If `bound` is zero.
    pub fn draw(&mut self, bound: u64) -> u64 {
        self.rng.u64(..bound)
    }

    /// The number of processors of the program. By default one to three, determined by the seed.
    pub fn processors(&self) -> usize {
        self.processors
    }

    /// Sets the number of processors.
    ///
    /// # Panics
    /// The run panics if it is zero or more than 1024.
    pub fn set_processors(&mut self, count: usize) {
        self.processors = count;
    }

    /// The time of day at the start, since 1970. It is the same in all worlds unless it is
    /// [set](Self::set_time_of_day).
    pub fn time_of_day(&self) -> Duration {
        self.outside.time_of_day()
    }

    /// Sets the time of day at the start, since 1970. Use it for a world that continues [where another
    /// ended](Net::time_of_day).
    pub fn set_time_of_day(&mut self, time: Duration) {
        self.outside.set_time_of_day(time);
    }

    /// Sets the frequency of network and disk faults. The default is [`Faults::MILD`]. [`Faults::random`], which
    /// chooses them by the seed, finds the most bugs.
    ///
    /// # Panics
    /// In [`explore_all`](super::explore_all), which simulates no faults.
    pub fn set_faults(&mut self, faults: Faults) {
        assert!(!self.exhaustive, "explore_all simulates no faults; use sim::explore");
        self.outside.set_faults(faults);
    }

    /// Sets the probability that a [`fault_point`](super::fault_point) panics, per mille. The default is
    /// zero.
    ///
    /// # Panics
    /// In [`explore_all`](super::explore_all), which simulates no faults.
    pub fn set_panics(&mut self, per_mille: u32) {
        assert!(!self.exhaustive, "explore_all simulates no faults; use sim::explore");
        self.panics = per_mille;
    }

    /// Allows operations to panic. Use it to test how other operations continue. By default, a run fails if an
    /// operation panics, except at a [`fault_point`](super::fault_point).
    pub fn allow_panics(&mut self) {
        self.allows_panics = true;
    }

    /// Sets the number of steps after which a run is considered stuck. The default is 200,000.
    pub fn set_max_steps(&mut self, steps: u64) {
        self.max_steps = steps;
    }

    /// Makes time advance only while nothing can run. Use it for programs whose leases expire and for clients that must
    /// answer in time. Otherwise, with some seeds, seconds pass within a few steps.
    pub fn advance_only_when_idle(&mut self) {
        self.is_steady = true;
    }

    /// Listening sockets at `address`, one for each processor. Call it after [`set_processors`](Self::set_processors).
    pub fn listen(&mut self, address: SocketAddr) -> Listeners {
        Listeners::new((0..self.processors).map(|_| self.outside.listen(address)))
    }

    /// Listening Unix sockets at `path`, one for each processor. The path is not on the simulated disk. Call it after
    /// [`set_processors`](Self::set_processors).
    pub fn listen_unix(&mut self, path: impl AsRef<Path>) -> Listeners {
        Listeners::new((0..self.processors).map(|_| self.outside.listen_unix(path.as_ref())))
    }

    /// The root directory of the simulated disk.
    pub fn root(&self) -> Dir {
        Dir(self.outside.root())
    }

    /// A directory of the simulated disk, for example for one of several programs. It is created if it does not exist.
    pub fn directory(&self, path: &str) -> Dir {
        Dir(self.outside.directory(path))
    }

    /// Creates a file on the simulated disk, with its parent directories.
    pub fn file(&mut self, path: &str, bytes: impl Into<Vec<u8>>) {
        self.outside.write(path, bytes);
    }

    /// Creates a symbolic link to `target` on the simulated disk.
    pub fn link(&mut self, path: &str, target: &str) {
        self.outside.link(path, target);
    }

    /// The network and disk, for clients.
    pub fn net(&self) -> Net {
        Net { world: self.outside.clone(), orders: self.orders.clone() }
    }

    /// Sets the program: its graph, and its `start` on each processor, as for
    /// [`Runtime::run`](crate::Runtime::run).
    ///
    /// # Panics
    /// If the world already has a program.
    pub fn program<F>(&mut self, graph: Graph, start: F)
    where
        F: Fn(&StartContext) -> Result<(), StartError> + 'static,
    {
        assert!(self.program.is_none(), "the world already has a program");
        self.program = Some((graph, Box::new(start)));
    }

    /// Calls `check` when the program has ended and released all resources. A panic in it fails the run.
    ///
    /// # Panics
    /// If the world already has a check.
    pub fn after_shutdown(&mut self, check: impl FnOnce() + 'static) {
        assert!(self.after_shutdown.is_none(), "the world already has a check");
        self.after_shutdown = Some(Box::new(check));
    }

    /// Adds a client. When all clients have finished, the program drains. A client that panics fails the run.
    pub fn client(&mut self, client: impl Future<Output = ()> + 'static) {
        self.clients.push(Task::new(client));
    }
}
