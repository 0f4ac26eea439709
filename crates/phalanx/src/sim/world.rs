//! What there is in a simulated world: a program, its files, its faults and its clients.

use std::cell::Cell;
use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use fastrand::Rng;
use phalanx_core::Graph;
use phalanx_driver::{Endpoint, sim};

use super::client::{Net, Task};
use super::{Faults, fault};
use crate::error::StartError;
use crate::fs::Dir;
use crate::worker_thread::StartContext;

/// A program's start on one processor.
pub(super) type StartFn = Box<dyn Fn(&StartContext) -> Result<(), StartError>>;

/// A world before it runs: says what there is in it. See [`run`](super::run).
pub struct World {
    pub(super) seed: u64,
    pub(super) rng: Rng,
    pub(super) outside: sim::World,
    pub(super) processors: usize,
    pub(super) panics: u32,
    pub(super) most_steps: u64,
    pub(super) ends: bool,
    /// A client has asked the program to finish.
    pub(super) drains: Rc<Cell<bool>>,
    pub(super) program: Option<(Graph, StartFn)>,
    pub(super) clients: Vec<Task>,
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
            most_steps: 200_000,
            ends: false,
            drains: Rc::default(),
            program: None,
            clients: Vec::new(),
        }
    }

    /// The seed of this run.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// A number below `bound`, from the seed: for the parts of the world that differ from run to run.
    ///
    /// # Panics
    /// If `bound` is zero.
    pub fn draw(&mut self, bound: u64) -> u64 {
        self.rng.u64(..bound)
    }

    /// How many processors the program will have: one to three, by the seed.
    pub fn processors(&self) -> usize {
        self.processors
    }

    /// Says how many processors the program will have, in place of the seed.
    pub fn set_processors(&mut self, count: usize) {
        self.processors = count;
    }

    /// The time of day at which the world begins, since 1970. The same in all worlds, unless it is
    /// [set](Self::set_time_of_day).
    pub fn time_of_day(&self) -> Duration {
        self.outside.time_of_day()
    }

    /// Has the world begin at this time of day, since 1970: for one that goes on where another has
    /// [ended](Net::time_of_day).
    pub fn set_time_of_day(&mut self, time: Duration) {
        self.outside.set_time_of_day(time);
    }

    /// How often the network and the disk fail. [`Faults::MILD`] unless said otherwise;
    /// [`Faults::drawn`] by the seed is what finds most.
    pub fn set_faults(&mut self, faults: Faults) {
        self.outside.set_faults(faults);
    }

    /// How often a [`fault_point`](super::fault_point) panics, out of a thousand times. Never unless
    /// said otherwise.
    pub fn set_panics(&mut self, per_mille: u32) {
        self.panics = per_mille;
    }

    /// A run that takes more steps than this is stuck. 200,000 unless said otherwise.
    pub fn set_most_steps(&mut self, steps: u64) {
        self.most_steps = steps;
    }

    /// At rest the program is ended, and not asked to finish: for programs whose operations wait
    /// for ever and do not heed the drain.
    pub fn end_at_rest(&mut self) {
        self.ends = true;
    }

    /// Listening sockets at `address`, one for each processor, for
    /// [`Listener::new`](crate::net::Listener::new).
    pub fn listen(&mut self, address: SocketAddr) -> Vec<Endpoint> {
        (0..self.processors).map(|_| self.outside.listen(address)).collect()
    }

    /// Listening Unix sockets at `path`, one for each processor, for [`Listener::new`](crate::net::Listener::new). The
    /// path is not on the simulated disk.
    pub fn listen_unix(&mut self, path: impl AsRef<Path>) -> Vec<Endpoint> {
        let path = path.as_ref();
        (0..self.processors).map(|_| self.outside.listen_unix(path)).collect()
    }

    /// The root directory of the simulated disk.
    pub fn root(&self) -> Dir {
        Dir(self.outside.root())
    }

    /// Puts a file on the simulated disk, with the directories it lies in.
    pub fn file(&mut self, path: &str, bytes: impl Into<Vec<u8>>) {
        self.outside.write(path, bytes);
    }

    /// Puts a symbolic link to `target` on the simulated disk.
    pub fn link(&mut self, path: &str, target: &str) {
        self.outside.link(path, target);
    }

    /// The network, and what else clients need.
    pub fn net(&self) -> Net {
        Net::new(self.outside.clone(), self.drains.clone())
    }

    /// The program: its graph, and its start on each processor, as for
    /// [`Runtime::run`](crate::Runtime::run).
    ///
    /// # Panics
    /// If there is one already.
    pub fn program<F>(&mut self, graph: Graph, start: F)
    where
        F: Fn(&StartContext) -> Result<(), StartError> + 'static,
    {
        assert!(self.program.is_none(), "one program in a world");
        self.program = Some((graph, Box::new(start)));
    }

    /// Somebody outside of the program, who uses the [`Net`]. When all clients are through, the
    /// program is asked to finish. A client that panics fails the run.
    pub fn client(&mut self, client: impl Future<Output = ()> + 'static) {
        self.clients.push(Task::new(client));
    }
}
