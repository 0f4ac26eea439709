//! Worlds for tests: one with a clock that is moved by hand, one with a thread that really parks.
#![allow(dead_code, reason = "each test file uses its part")]

use std::cell::{Cell, RefCell};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use phalanx_core::{Control, Graph, Processor, World};

/// Virtual time, no I/O.
#[derive(Default)]
pub(crate) struct Bench {
    pub(crate) now: Cell<u64>,
    /// Runs instead of reaping I/O completions.
    pub(crate) completions: RefCell<Vec<Box<dyn FnOnce()>>>,
    /// The external queue delay.
    pub(crate) waited: Cell<u64>,
}

impl World for Bench {
    fn now(&self) -> u64 {
        self.now.get()
    }

    fn reap(&self) -> bool {
        let completions = std::mem::take(&mut *self.completions.borrow_mut());
        let any = !completions.is_empty();
        completions.into_iter().for_each(|completion| completion());
        any
    }

    fn submit(&self) {}

    fn external_queue_delay(&self) -> u64 {
        self.waited.get()
    }

    fn park(&self, timeout: Option<u64>) {
        let timeout = timeout.expect("asleep for ever with nobody to wake it: stuck");
        self.now.set(self.now.get() + timeout);
    }
}

/// A single processor, turned by hand.
pub(crate) fn single_processor(graph: Graph) -> Processor {
    graph.build(1).remove(0).build(Box::new(|| ()))
}

/// Calls `start` to invoke operations, then runs turns until nothing moves and no timer is armed.
pub(crate) fn settle(processor: &Processor, world: &Bench, start: impl FnOnce()) {
    processor.enter(|| {
        start();
        while processor.turn(world).ran > 0 {}
    });
}

/// Real time, and a sleep that an unpark ends.
struct Thread {
    epoch: Instant,
    wake: Receiver<()>,
}

impl World for Thread {
    fn now(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }

    fn reap(&self) -> bool {
        false
    }

    fn submit(&self) {}

    fn park(&self, timeout: Option<u64>) {
        let timeout = timeout.map_or(Duration::from_secs(20), Duration::from_nanos);
        let _ = self.wake.recv_timeout(timeout);
    }
}

/// Runs the program on `processors` threads until it has drained, calling `start` on each.
pub(crate) fn run(
    graph: Graph,
    processors: usize,
    start: impl Fn(usize, Control) + Send + Sync,
) -> Control {
    let builders = graph.build(processors);
    let control = builders[0].control();
    let epoch = Instant::now();
    std::thread::scope(|scope| {
        for builder in builders {
            let (start, control) = (&start, control.clone());
            let (sender, wake): (Sender<()>, _) = channel();
            scope.spawn(move || {
                let index = builder.index();
                let processor = builder.build(Box::new(move || {
                    let _ = sender.send(());
                }));
                processor.enter(|| start(index, control));
                processor.run(&Thread { epoch, wake }, 0);
            });
        }
    });
    control
}

/// Processors that are turned by hand, in a given order.
pub(crate) struct Program {
    pub(crate) processors: Vec<Processor>,
    pub(crate) world: Bench,
}

impl Program {
    pub(crate) fn new(graph: Graph, processors: usize) -> Self {
        let builders = graph.build(processors).into_iter();
        Self {
            processors: builders.map(|builder| builder.build(Box::new(|| ()))).collect(),
            world: Bench::default(),
        }
    }

    /// Turns the processor numbered `at`, modulo their number. Returns whether anything ran or arrived.
    pub(crate) fn turn(&self, at: usize) -> bool {
        let turn = self.processors[at % self.processors.len()].turn(&self.world);
        turn.ran > 0 || turn.received
    }

    /// Turns the processors one after the other, and lets time pass, until nothing has moved for `idle_rounds` ms.
    pub(crate) fn settle(&self, idle_rounds: u32) {
        let mut is_idle = 0;
        for _ in 0..100_000 {
            let mut moved = false;
            (0..self.processors.len()).for_each(|at| moved |= self.turn(at));
            is_idle = if moved { 0 } else { is_idle + 1 };
            if is_idle > 3 {
                self.world.now.set(self.world.now.get() + 1_000_000);
            }
            if is_idle > idle_rounds + 3 {
                return;
            }
        }
        panic!("never at rest");
    }

    pub(crate) fn live(&self) -> Vec<usize> {
        self.processors.iter().map(Processor::live).collect()
    }
}
