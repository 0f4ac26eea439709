//! `phalanx-bench crossing`: what a call to another processor costs, and for what.
//!
//! The same calls are made on one processor, on two processors of one thread, and on two threads, each bound to a core.
//! The second arm has the messages of the third, but no cache line travels between cores and nobody sleeps. So the
//! differences between the arms are the costs of the parts.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::thread;

use clap::Args;
use phalanx_core::{Graph, Processor, SharedStage};

use crate::arguments::number;
use crate::error::Error;
use crate::measure::{
    Clock, Machine, ParkingClock, Rounds as _, Run, Stretch, measure_each, median, record,
    thread_time,
};
use crate::system::cores::{Bound, allowed};
use crate::system::{Cores, install_signal_handlers, interrupted};

/// Calls in flight. With few, the processors sleep between two calls; with many, both always have work.
const IN_FLIGHT: [usize; 4] = [1, 8, 64, 512];
/// Turns without work in a measurement.
const EMPTY_TURNS: u32 = 100_000;

/// Measure a call to another processor and its reply, and split its cost.
///
/// The same calls are made on one processor, on two processors of one thread, and on two threads. Times are processor
/// times of all threads for a call and its reply. The processors do not poll before they sleep.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Rounds
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = number(1..=1000))]
    pub(crate) rounds: usize,

    /// Calls of a measurement
    #[arg(long, value_name = "N", default_value_t = 200_000, value_parser = number(1_000..=100_000_000))]
    pub(crate) calls: usize,

    /// One short round: only checks that it runs
    #[arg(long, conflicts_with_all = ["rounds", "calls"])]
    pub(crate) quick: bool,
}

record! {
    /// The results.
    pub(crate) struct Report, fn new(rows: Vec<Row>, empty_turns: &[f64], rounds: usize) {
        /// One per number of calls in flight.
        rows: Vec<Row> | "calls", 0;
        /// Nanoseconds of a turn without work.
        empty_turn_ns: f64 => "ns of an empty turn", 1 = median(empty_turns);
        rounds: usize => "rounds", 0;
    }
}

record! {
    /// Calls with the same number in flight; medians of the rounds. Times are nanoseconds of processor time.
    pub(crate) struct Row, fn new(in_flight: usize, taken: &[Round]) where {
        // One of two ways.
        let way = |parts: fn(&Round) -> f64| taken.each(|round| parts(round) / 2.0);
    } {
        /// Calls in flight.
        in_flight: usize => "in flight", 0;
        /// A call on the same processor.
        local_ns: f64 => "local", 0 = taken.median(|round| round.local.ns);
        /// A call to another processor of the same thread.
        one_thread_ns: f64 => "on one thread", 0 = taken.median(|round| round.one_thread.ns);
        /// A call to another processor on another thread.
        crossed_ns: f64 => "on two", 0 = taken.median(|round| round.crossed.ns);
        /// One way of a crossing: half of the difference between a call to another thread and one on the same processor.
        way_ns: f64 => "added, each way", 0 = median(&way(|round| round.crossed.ns - round.local.ns));
        /// Its part for messages and turns: half of the difference between one thread with two processors and one.
        messages_ns: f64 => "messages and turns", 0 = median(&way(|round| round.one_thread.ns - round.local.ns));
        /// The remaining part: cache lines that travel and, if processors sleep, wake-ups and small cohorts.
        travel_ns: f64 => "the rest", 0 = median(&way(|round| round.crossed.ns - round.one_thread.ns));
        /// Turns of both processors for a call to another thread.
        turns: f64 => "turns", 3 = taken.median(|round| round.crossed.turns);
        /// Sleeps of both processors for a call to another thread.
        sleeps: f64 => "sleeps", 3 = taken.median(|round| round.crossed.sleeps);
    }
}

/// A call in one arm.
#[derive(Clone, Copy, Debug, Default)]
struct Call {
    ns: f64,
    turns: f64,
    sleeps: f64,
}

/// The arms of one round.
#[derive(Clone, Copy, Debug)]
struct Round {
    local: Call,
    one_thread: Call,
    crossed: Call,
    empty_turn_ns: f64,
}

pub(crate) fn run(options: &Options) -> Result<Run<Report>, Error> {
    install_signal_handlers()?;
    let (rounds, calls) = if options.quick { (1, 1_000) } else { (options.rounds, options.calls) };
    let cores = allowed()?;
    let (taken, partial) = measure_each(&IN_FLIGHT, rounds, |&in_flight, round| {
        eprintln!("{in_flight} in flight, round {round} of {rounds}");
        // With few calls in flight, each sleeps.
        let calls = calls / if in_flight < 64 { 10 } else { 1 };
        // Each caller makes the same number of calls.
        let calls = (calls / in_flight).max(1) * in_flight;
        let measured = Round {
            local: on_this_thread(1, in_flight, calls),
            one_thread: on_this_thread(2, in_flight, calls),
            crossed: on_two_threads(&cores, in_flight, calls)?,
            empty_turn_ns: empty_turn(),
        };
        interrupted()?;
        Ok(measured)
    })?;
    let empty_turns: Vec<f64> = taken.iter().flatten().map(|round| round.empty_turn_ns).collect();
    let rows = IN_FLIGHT.into_iter().zip(&taken).map(|(n, taken)| Row::new(n, taken)).collect();
    let report = Report::new(rows, &empty_turns, rounds);
    let machine = Machine::here(2, &Cores { server: cores.clone(), load: cores });
    Ok(Run::new(report, machine, partial, options.quick))
}

/// A program whose first processor calls the last one.
#[derive(Clone, Copy)]
struct Calls {
    callers: SharedStage<()>,
    called: SharedStage<()>,
}

impl Calls {
    fn declare(graph: &mut Graph) -> Self {
        Self { callers: graph.shared("callers", ()), called: graph.shared("called", ()) }
    }

    /// Starts callers on this processor, of which each awaits one call after the other. `done` runs after the last.
    fn start(
        self,
        target: usize,
        in_flight: usize,
        calls: usize,
        done: impl FnOnce() + 'static,
    ) -> Rc<Cell<usize>> {
        let left = Rc::new(Cell::new(in_flight));
        let done = Rc::new(Cell::new(Some(done)));
        for _ in 0..in_flight {
            let (left, done, called) = (left.clone(), done.clone(), self.called);
            let caller = self.callers.dispatch(move |_| async move {
                for n in 0..calls / in_flight {
                    let there = called.call_on(target, move |_| async move { n });
                    assert_eq!(there.await, Ok(n));
                }
                left.set(left.get() - 1);
                if left.get() == 0 {
                    done.take().expect("only the last caller takes it")();
                }
            });
            caller.expect("below the limit");
        }
        left
    }
}

/// Calls on this thread, from the first to the last of this number of processors.
fn on_this_thread(processors: usize, in_flight: usize, calls: usize) -> Call {
    let mut graph = Graph::new();
    let program = Calls::declare(&mut graph);
    let build = |builder: phalanx_core::ProcessorBuilder| builder.build(Box::new(|| ()));
    let all: Vec<Processor> = graph.build(processors).into_iter().map(build).collect();
    let clock = Clock::new();
    let left = all[0].enter(|| program.start(processors - 1, in_flight, calls, || ()));
    let stretch = Stretch::begin();
    let begin = thread_time();
    while left.get() > 0 {
        for processor in &all {
            processor.turn(&clock);
        }
    }
    let used = thread_time() - begin;
    stretch
        .end()
        .of(format_args!("{in_flight} in flight, processors on one thread: {processors}"), calls);
    Call { ns: used.as_nanos() as f64 / calls as f64, ..Call::default() }
}

/// Calls from a processor to another one, each on a thread and, where there are two, on a core of its own.
fn on_two_threads(cores: &[usize], in_flight: usize, calls: usize) -> io::Result<Call> {
    let mut graph = Graph::new();
    let program = Calls::declare(&mut graph);
    let stretch = Stretch::begin();
    thread::scope(|scope| {
        let start = |builder: phalanx_core::ProcessorBuilder| {
            let core = cores[builder.index() % cores.len()];
            scope.spawn(move || {
                let _bound = Bound::to(&[core])?;
                let (index, control) = (builder.index(), builder.control());
                let thread = thread::current();
                let processor = builder.build(Box::new(move || thread.unpark()));
                if index == 0 {
                    let drain = move || control.drain();
                    processor.enter(|| program.start(1, in_flight, calls, drain));
                }
                let world = ParkingClock::new();
                let begin = thread_time();
                processor.run(&world, 0);
                let ns = (thread_time() - begin).as_nanos() as f64;
                Ok([ns, world.turns.get() as f64, world.sleeps.get() as f64])
            })
        };
        let threads: Vec<_> = graph.build(2).into_iter().map(start).collect();
        let mut sums = [0.0; 3];
        for thread in threads {
            let used: io::Result<[f64; 3]> = thread.join().expect("no panic");
            sums.iter_mut().zip(used?).for_each(|(sum, one)| *sum += one);
        }
        stretch.end().of(format_args!("{in_flight} in flight, two threads"), calls);
        let [ns, turns, sleeps] = sums.map(|sum| sum / calls as f64);
        Ok(Call { ns, turns, sleeps })
    })
}

/// Nanoseconds of a turn without work.
fn empty_turn() -> f64 {
    let mut graph = Graph::new();
    Calls::declare(&mut graph);
    let processor = graph.build(1).remove(0).build(Box::new(|| ()));
    let (clock, begin) = (Clock::new(), thread_time());
    for _ in 0..EMPTY_TURNS {
        processor.turn(&clock);
    }
    (thread_time() - begin).as_nanos() as f64 / f64::from(EMPTY_TURNS)
}
