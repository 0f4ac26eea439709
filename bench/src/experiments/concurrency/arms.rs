//! The servers that are compared: event-driven, and staged with and without a budget.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use phalanx_core::{Graph, Ingress, Processor, SharedStage, sleep};
use serde::{Deserialize, Serialize};

use super::request::{
    Connection, Context, General, Header, Input, Line, Memory, Output, Path, Pools, Work, World,
};
use crate::experiments::pipeline::STAGES;
use crate::measure::Clock;

/// The order in which requests advance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Order {
    /// Event-driven: any request in flight, by one stage.
    Events,
    /// Event-driven: all requests in flight in the order of a list, each by one stage. The priorities of TUX (§4.5.1)
    /// are not modelled.
    List,
    /// In cohorts of all queued requests.
    Unbounded,
    /// In cohorts; requests start when the budget has room.
    Bounded,
}

/// The allocator of the requests' objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Allocator {
    /// `malloc`.
    General,
    /// The runtime's pools.
    Pools,
}

/// All combinations. Combinations that readers compare are adjacent.
pub(crate) const ARMS: [(Order, Allocator); 8] = [
    (Order::Events, Allocator::General),
    (Order::Bounded, Allocator::Pools),
    (Order::List, Allocator::General),
    (Order::List, Allocator::Pools),
    (Order::Events, Allocator::Pools),
    (Order::Bounded, Allocator::General),
    (Order::Unbounded, Allocator::General),
    (Order::Unbounded, Allocator::Pools),
];

/// A server of one kind.
pub(crate) trait Server {
    /// Adds a request that arrived at `came`.
    fn offer(&mut self, came: u64);

    /// Does some work and passes the arrival time of each completed request to `ended`.
    fn turn(&mut self, ended: &mut dyn FnMut(u64));

    /// Number of requests in flight, including those that wait to start.
    fn in_flight(&self) -> usize;
}

/// A server with `kib` of code per stage, sized for `requests` requests in flight, for a second-level cache of
/// `cache` bytes.
pub(crate) fn server(
    (order, allocator): (Order, Allocator),
    kib: u64,
    requests: usize,
    cache: usize,
) -> Box<dyn Server> {
    fn of<M: Memory>(order: Order, kib: u64, requests: usize, cache: usize) -> Box<dyn Server> {
        let world = World::new(kib, requests);
        match order {
            Order::Events => Box::new(Events::<M>::new(world, false)),
            Order::List => Box::new(Events::<M>::new(world, true)),
            Order::Unbounded => Box::new(Stages::<M>::new(world, Ingress::Throttle, 1, NO_WAIT)),
            Order::Bounded => Box::new(Stages::<M>::new(world, Ingress::Budget, cache, NO_WAIT)),
        }
    }
    match allocator {
        Allocator::General => of::<General>(order, kib, requests, cache),
        Allocator::Pools => of::<Pools>(order, kib, requests, cache),
    }
}

/// Stages and pools, with the given ingress, for a second-level cache of `cache` bytes; each request waits for `wait`
/// half-way.
pub(super) fn budgeted(
    ingress: Ingress,
    cache: usize,
    kib: u64,
    requests: usize,
    wait: Duration,
) -> Box<dyn Server> {
    Box::new(Stages::<Pools>::new(World::new(kib, requests), ingress, cache, wait))
}

const NO_WAIT: Duration = Duration::ZERO;
/// The stage before which requests wait.
const WAITING: usize = STAGES / 2;

/// Stages that an event server runs per turn.
const STEPS: usize = 64;

/// An event server: runs the next stage of one request after another.
struct Events<M: Memory> {
    /// Provides the pools only.
    processor: Processor,
    world: World,
    on_their_way: VecDeque<M::Held<Work<M>>>,
    /// Whether requests advance in the order of their list, or at random.
    in_order: bool,
    has_begun: bool,
    random: fastrand::Rng,
    next: usize,
}

impl<M: Memory> Events<M> {
    fn new(world: World, in_order: bool) -> Self {
        let mut graph = Graph::new();
        let _ = graph.shared("events", ());
        Self {
            processor: graph.build(1).remove(0).build(Box::new(|| ())),
            world,
            on_their_way: VecDeque::new(),
            in_order,
            has_begun: false,
            random: fastrand::Rng::with_seed(1),
            next: 0,
        }
    }
}

impl<M: Memory> Server for Events<M> {
    fn offer(&mut self, came: u64) {
        let work = Work::new(self.next, came);
        let Self { processor, world, in_order, has_begun, random, .. } = self;
        let held = processor.enter(|| {
            let mut held = M::hold(work);
            // The first requests arrive at once. In a list they would always be at the same stage together.
            let stages = if *in_order && !*has_begun { random.usize(..STAGES) } else { 0 };
            (0..stages).for_each(|_| {
                held.step(world);
            });
            held
        });
        self.on_their_way.push_back(held);
        self.next += 1;
    }

    fn turn(&mut self, ended: &mut dyn FnMut(u64)) {
        self.has_begun = true;
        let Self { processor, world, on_their_way, in_order, random, .. } = self;
        processor.enter(|| {
            for _ in 0..STEPS {
                if !*in_order && !on_their_way.is_empty() {
                    on_their_way.swap(0, random.usize(..on_their_way.len()));
                }
                let Some(mut work) = on_their_way.pop_front() else { return };
                match work.step(world) {
                    true => ended(work.came),
                    false => on_their_way.push_back(work),
                }
            }
        });
    }

    fn in_flight(&self) -> usize {
        self.on_their_way.len()
    }
}

impl<M: Memory> Drop for Events<M> {
    fn drop(&mut self) {
        let all = std::mem::take(&mut self.on_their_way);
        self.processor.enter(|| drop(all));
    }
}

/// The runtime, with a stage for each step.
struct Stages<M: Memory> {
    processor: Processor,
    clock: Clock,
    line: Rc<Way<M>>,
    next: usize,
}

/// State shared by all operations.
struct Way<M: Memory> {
    world: World,
    stages: [SharedStage<()>; STAGES],
    /// Arrival times of requests that completed in this turn.
    ended: RefCell<Vec<u64>>,
    in_flight: Cell<usize>,
    wait: Duration,
    _memory: std::marker::PhantomData<M>,
}

impl<M: Memory> Stages<M> {
    fn new(world: World, ingress: Ingress, cache: usize, wait: Duration) -> Self {
        let mut graph = Graph::new();
        graph.ingress(ingress);
        graph.cache_bytes(cache);
        let names = ["read", "parse", "route", "check", "fetch", "shape", "pack", "send"];
        let stages = std::array::from_fn(|stage| {
            // A cohort takes all queued operations; only the budget bounds it.
            let options = graph.stage(names[stage]).max_cohort(1 << 16).cohort_time(Duration::MAX);
            let options = options
                .object::<Connection>("connection")
                .object::<Input>("input")
                .object::<Header>("header")
                .object::<Path>("path")
                .object::<Context>("context")
                .object::<Output>("output")
                .object::<Line>("line");
            if stage == 0 { options.entry() } else { options }.shared(())
        });
        let processor = graph.build(1).remove(0).build(Box::new(|| ()));
        let line = Way {
            world,
            stages,
            ended: RefCell::default(),
            in_flight: Cell::new(0),
            wait,
            _memory: std::marker::PhantomData,
        };
        Self { processor, clock: Clock::new(), line: Rc::new(line), next: 0 }
    }
}

/// Runs the next stage of `work`, and the following ones.
fn go_on<M: Memory>(line: Rc<Way<M>>, stage: usize, work: M::Held<Work<M>>) {
    let handle = line.stages[stage];
    let taken = handle.dispatch(move |_| async move {
        let mut work = work;
        if stage == WAITING && line.wait != NO_WAIT {
            sleep(line.wait).await;
        }
        if work.step(&line.world) {
            line.in_flight.set(line.in_flight.get() - 1);
            line.ended.borrow_mut().push(work.came);
        } else {
            go_on(line, stage + 1, work);
        }
    });
    taken.expect("below the limit");
}

impl<M: Memory> Server for Stages<M> {
    fn offer(&mut self, came: u64) {
        self.line.in_flight.set(self.line.in_flight.get() + 1);
        let (line, work) = (self.line.clone(), Work::new(self.next, came));
        self.processor.enter(|| go_on(line, 0, M::hold(work)));
        self.next += 1;
    }

    fn turn(&mut self, ended: &mut dyn FnMut(u64)) {
        self.processor.enter(|| self.processor.turn(&self.clock));
        self.line.ended.borrow_mut().drain(..).for_each(ended);
    }

    fn in_flight(&self) -> usize {
        self.line.in_flight.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_serve_all() {
        let wait = Duration::from_millis(1);
        let waits = [Ingress::Throttle, Ingress::Budget]
            .map(|ingress| ("waits", budgeted(ingress, 1 << 19, 1, 100, wait)));
        let arms = ARMS.map(|arm| ("goes on", server(arm, 1, 100, 1 << 19)));
        for (arm, mut server) in arms.into_iter().chain(waits) {
            (0..100).for_each(|came| server.offer(came));
            assert_eq!(server.in_flight(), 100, "{arm:?}");
            let mut ended = Vec::new();
            while ended.len() < 100 {
                server.turn(&mut |came| ended.push(came));
            }
            ended.sort_unstable();
            assert!(ended.iter().copied().eq(0..100), "{arm:?}: {ended:?}");
            assert_eq!(server.in_flight(), 0, "{arm:?}");
        }
    }
}
