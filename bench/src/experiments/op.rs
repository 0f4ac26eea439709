//! `phalanx-bench op`: the cost of an operation.
//!
//! All arms run in one process in turn, so that noise affects them alike. Each arm repeats the same small work:
//! adding a captured number to a sum.

use std::cell::Cell;
use std::convert::Infallible;
use std::hint::black_box;
use std::rc::Rc;

use crate::error::Error;
use crate::measure::stretch::time;
use crate::measure::{
    Clock, ParkingClock, Partial, Quartiles, Rounds as _, Spread, record, rounds,
};
use crate::system::install_signal_handlers;
use clap::Args;
use phalanx_core::{Graph, Processor, SharedStage};

/// Operations queued together.
const COHORT: usize = 64;

/// Measure an operation, a boxed closure and a task of tokio, in one process.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Number of measurements per arm; at least 7
    #[arg(long, default_value_t = 15)]
    pub(crate) rounds: usize,
    /// Fewer operations: only checks that it runs
    #[arg(long)]
    pub(crate) quick: bool,
}

record! {
    /// Nanoseconds per operation, medians over the rounds, and their ratios.
    pub(crate) struct Report, fn new(taken: &[[f64; 5]], noisy_rounds: usize, partial: Option<Partial>) where {
        let arm = |n: usize| taken.median(|figures| figures[n]);
        let ratios = |over: usize, under: usize| taken.each(|figures| figures[over] / figures[under]);
    } {
        /// Invoked and run on the same processor, with counters.
        dispatch_ns: f64 => "ns of an operation dispatched and run", 1 = arm(0);
        /// Called from one stage to another and awaited.
        call_ns: f64 => "called and awaited", 1 = arm(1);
        cross_ns: f64 => "called on another processor and awaited", 1 = arm(2);
        /// A boxed closure pushed to a vector, popped and run.
        boxed_fn_ns: f64 => "a boxed closure", 1 = arm(3);
        /// A task spawned on tokio's current-thread runtime and awaited.
        tokio_spawn_ns: f64 => "a tokio task, spawned and awaited", 1 = arm(4);
        /// Median of the rounds' ratios.
        dispatch_over_boxed_fn: f64 => "dispatch over boxed closure", 2 = ratios(0, 3);
        /// Median of the rounds' ratios.
        tokio_over_call: f64 => "tokio task over call", 2 = ratios(4, 1);
        /// Quartiles of the two ratios.
        spread: Spread = Quartiles;
        rounds: usize => "rounds", 0 = taken.len();
        /// Rounds among these that were kept although other processes used the machine.
        noisy_rounds: usize;
        partial: Option<Partial>;
    }
}

pub(crate) fn run(options: &Options) -> Result<Report, Error> {
    install_signal_handlers()?;
    let rounds = options.rounds.max(7);
    let operations = if options.quick { 6_400 } else { 640_000 };
    let one = One::new();
    let tokio = tokio::runtime::Builder::new_current_thread().build()?;
    let round = || {
        // Compared arms are adjacent, since the speed of the machine changes.
        let dispatched = time("dispatch", operations, || one.dispatch(operations));
        let boxed = time("boxed closure", operations, || boxed(operations));
        let called = time("call", operations, || one.call(operations));
        let spawned = time("tokio task", operations, || tokio.block_on(spawn_all(operations)));
        let crossed = time("call on another processor", operations / 20, || cross(operations / 20));
        Ok::<_, Infallible>([dispatched, called, crossed, boxed, spawned])
    };
    // The first round warms up.
    let Ok(_) = round();
    let Ok(taken) = rounds::take(rounds, round);
    let partial = taken.partial(rounds);
    Ok(Report::new(&taken.rounds, taken.noisy, partial))
}

/// One processor, driven by the caller.
struct One {
    processor: Processor,
    clock: Clock,
    front: SharedStage<()>,
    back: SharedStage<()>,
}

impl One {
    fn new() -> Self {
        let mut graph = Graph::new();
        let (front, back) = (graph.shared("front", ()), graph.shared("back", ()));
        let processor = graph.build(1).remove(0).build(Box::new(|| ()));
        Self { processor, clock: Clock::new(), front, back }
    }

    fn dispatch(&self, operations: usize) {
        let sum = Rc::new(Cell::new(0u64));
        self.processor.enter(|| {
            for batch in 0..operations / COHORT {
                for n in 0..COHORT {
                    let (sum, n) = (sum.clone(), black_box(batch + n) as u64);
                    let taken = self.front.dispatch(move |_| {
                        sum.set(sum.get() + n);
                        std::future::ready(())
                    });
                    taken.expect("below the limit");
                }
                while self.processor.turn(&self.clock).ran > 0 {}
            }
        });
        black_box(sum.get());
    }

    fn call(&self, operations: usize) {
        let sum = Rc::new(Cell::new(0u64));
        self.processor.enter(|| {
            for _ in 0..COHORT {
                let (sum, back) = (sum.clone(), self.back);
                let parent = self.front.dispatch(move |_| async move {
                    for n in 0..operations / COHORT {
                        let n = black_box(n) as u64;
                        let child = back.call(move |_| async move { n });
                        sum.set(sum.get() + child.await.expect("no panic"));
                    }
                });
                parent.expect("below the limit");
            }
            while self.processor.turn(&self.clock).ran > 0 {}
        });
        black_box(sum.get());
    }
}

fn boxed(operations: usize) {
    let sum = Rc::new(Cell::new(0u64));
    let mut queue: Vec<Box<dyn FnOnce()>> = Vec::with_capacity(COHORT);
    for batch in 0..operations / COHORT {
        for n in 0..COHORT {
            let (sum, n) = (sum.clone(), black_box(batch + n) as u64);
            queue.push(Box::new(move || sum.set(sum.get() + n)));
        }
        while let Some(work) = black_box(&mut queue).pop() {
            work();
        }
    }
    black_box(sum.get());
}

/// A cohort of parents, each spawning and awaiting one child after another.
async fn spawn_all(operations: usize) {
    let parents = (0..COHORT).map(|_| {
        tokio::spawn(async move {
            let mut sum = 0;
            for n in 0..operations / COHORT {
                let n = black_box(n) as u64;
                sum += tokio::spawn(async move { n }).await.expect("no panic");
            }
            sum
        })
    });
    for parent in parents.collect::<Vec<_>>() {
        black_box(parent.await.expect("no panic"));
    }
}

/// Two processors on two threads; one calls the other and waits, one call at a time.
fn cross(operations: usize) {
    let mut graph = Graph::new();
    let stage = graph.shared("stage", ());
    std::thread::scope(|scope| {
        for builder in graph.build(2) {
            scope.spawn(move || {
                let (index, control) = (builder.index(), builder.control());
                let thread = std::thread::current();
                let processor = builder.build(Box::new(move || thread.unpark()));
                processor.enter(|| {
                    if index == 0 {
                        let started = stage.dispatch(move |_| async move {
                            for n in 0..operations {
                                let there = stage.call_on(1, move |_| async move { n });
                                assert_eq!(there.await, Ok(n));
                            }
                            control.drain();
                        });
                        started.expect("below the limit");
                    }
                });
                processor.run(&ParkingClock::new(), 50_000);
            });
        }
    });
}
