//! The loop of a simulated run, which chooses the next step.

use std::collections::BTreeMap;
use std::time::Duration;

use fastrand::Rng;
use phalanx_core::{Control, Phase, World as _};

use super::client::Task;
use super::programs::launch::{LaunchOptions, NewProgram};
use super::programs::orders::{Order, Orders};
use super::schedule_bias::{SIZES, ScheduleBias, sizes};
use super::sim_processor::SimProcessor;
use super::trace::{Step, Trace};
use super::world::{CallGraphCheck, World};
use super::{Report, fault, oracle};
use crate::blocking::workers::{self, WorkerStep};

/// The state of a run.
pub(super) struct Run {
    seed: u64,
    rng: Rng,
    bias: ScheduleBias,
    pub(super) outside: phalanx_driver::sim::World,
    pub(super) control: Control,
    /// The control handles of programs that clients have started, by number.
    others: BTreeMap<usize, Control>,
    orders: Orders,
    pub(super) processors: Vec<SimProcessor>,
    pub(super) clients: Vec<Task>,
    after_shutdown: Option<Box<dyn FnOnce()>>,
    calls: Option<CallGraphCheck>,
    allows_panics: bool,
    pub(super) trace: Trace,
    pub(super) steps: u64,
}

/// A step that can be taken now.
#[derive(Clone, Copy)]
enum Next {
    Processor(usize),
    Sleeper(usize, &'static str),
    Client(usize),
    Worker(WorkerStep),
}

pub(super) fn run(world: World) -> Result<Report, String> {
    let max_steps = world.max_steps;
    let (run, ()) = run_with(world, |run| run.until_rest(max_steps))?;
    run.end()
}

/// Starts a world and drives it with `drive`. A failure includes the last steps.
pub(super) fn run_with<T>(
    world: World,
    drive: impl FnOnce(&mut Run) -> Result<T, String>,
) -> Result<(Run, T), String> {
    let (seed, panics) = (world.seed, world.panics);
    let guard = Guard::new(seed, world.outside.clone());
    let mut run = Run::start(world)?;
    fault::enable(panics);
    let result = drive(&mut run);
    workers::stop();
    drop(guard);
    match result {
        Ok(value) => Ok((run, value)),
        Err(failure) => Err(format!("{failure}\n{}", run.trace)),
    }
}

/// The thread-local state of a simulation.
struct Guard;

impl Guard {
    fn new(seed: u64, world: phalanx_driver::sim::World) -> Self {
        fault::start(seed, world);
        workers::start();
        Self
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        fault::stop();
        workers::forget();
    }
}

impl Run {
    fn start(world: World) -> Result<Self, String> {
        let World { seed, mut rng, outside, processors, orders, clients, .. } = world;
        let World { program, after_shutdown, calls, exhaustive, is_steady, allows_panics, .. } =
            world;
        let (graph, start) = program.ok_or("the world has no program; call World::program")?;
        let mut bias = if exhaustive { ScheduleBias::NONE } else { ScheduleBias::random(&mut rng) };
        if is_steady {
            bias.jumps = 0;
        }
        let program = NewProgram { number: 0, processors, graph, start };
        let (control, processors) = program.launch(
            &outside,
            LaunchOptions {
                wake_delay: bias.wake_delay,
                is_frozen: exhaustive,
                sizes: &mut || if exhaustive { SIZES } else { sizes(&mut rng) },
            },
        )?;
        let (trace, steps, others) = (Trace::default(), 0, BTreeMap::new());
        Ok(Self {
            seed,
            rng,
            bias,
            outside,
            control,
            others,
            orders,
            processors,
            clients,
            after_shutdown,
            calls,
            allows_panics,
            trace,
            steps,
        })
    }

    fn until_rest(&mut self, max_steps: u64) -> Result<(), String> {
        while !self.is_over() {
            self.steps += 1;
            if self.steps > max_steps {
                let remaining = oracle::describe_remaining(&self.processors);
                return Err(format!(
                    "not at rest after {max_steps} steps; remaining:\n{remaining}"
                ));
            }
            self.step()?;
            self.check_step()?;
        }
        Ok(())
    }

    /// Checks the conditions that must hold after every step.
    pub(super) fn check_step(&self) -> Result<(), String> {
        self.check_panics()?;
        oracle::check_wakeups(&self.processors)
    }

    fn check_panics(&self) -> Result<(), String> {
        if self.allows_panics { Ok(()) } else { oracle::check_panics(&self.processors) }
    }

    /// Whether the program has ended and all clients have finished. Clients may outlive the program.
    pub(super) fn is_over(&self) -> bool {
        let is_done = self.clients.iter().all(Task::is_finished) && self.orders.is_empty();
        is_done && self.processors.iter().all(|sim| sim.has_ended)
    }

    fn step(&mut self) -> Result<(), String> {
        self.run_orders()?;
        self.remove_ended()?;
        self.check_drain();
        if self.rng.u32(..1000) < self.bias.jumps {
            let max = if self.rng.bool() { 1_000_000 } else { 3_000_000_000 };
            let by = self.rng.u64(..max);
            self.advance_to(self.outside.now() + by);
        }
        if self.rng.u32(..1000) < self.bias.spurious {
            let sleepers = self.processors.iter().enumerate();
            let sleepers = sleepers
                .filter(|(_, processor)| processor.asleep.is_some() && processor.may_step());
            let sleepers: Vec<_> = sleepers.map(|(number, _)| number).collect();
            if !sleepers.is_empty() {
                let sleeper = sleepers[self.rng.usize(..sleepers.len())];
                self.wake(sleeper, "spurious");
            }
        }
        let all = self.candidates();
        if all.is_empty() {
            let delay = if self.rng.u8(..4) == 0 { self.rng.u64(..20_000_000) } else { 0 };
            return self.on_idle(delay);
        }
        match all[self.rng.usize(..all.len())] {
            Next::Sleeper(number, reason) => self.wake(number, reason),
            Next::Client(number) => self.poll_client(number),
            Next::Worker(step) => {
                workers::take(step, self.outside.now(), Some(&mut self.rng));
                self.trace.record(Step::Blocked { step });
            }
            Next::Processor(number) => {
                self.drive(number)?;
                if self.bias.audits || self.rng.u8(..32) == 0 {
                    oracle::check_invariants(number, &self.processors[number])?;
                }
            }
        }
        Ok(())
    }

    /// Executes the orders of clients for single programs.
    fn run_orders(&mut self) -> Result<(), String> {
        while let Some(order) = self.orders.next() {
            match order {
                Order::Start(program) => {
                    let (number, rng) = (program.number, &mut self.rng);
                    let options = LaunchOptions {
                        wake_delay: self.bias.wake_delay,
                        is_frozen: false,
                        sizes: &mut || sizes(rng),
                    };
                    let (control, processors) =
                        fault::disabled(|| program.launch(&self.outside, options))?;
                    if self.control.phase() > Phase::Running {
                        control.drain();
                    }
                    self.others.insert(number, control);
                    self.processors.extend(processors);
                    self.trace.record(Step::Started { program: number });
                }
                Order::Stop(program, stops) => {
                    let processors =
                        self.processors.iter_mut().filter(|processor| processor.program == program);
                    processors.for_each(|sim| sim.is_stopped = stops);
                }
                Order::Drain(program) => {
                    self.others.get(&program).into_iter().for_each(Control::drain);
                }
                Order::Kill(program) => {
                    let (outside, processors) = (self.outside.clone(), &mut self.processors);
                    outside.without_effects(|| processors.retain(|sim| sim.program != program));
                    self.remove(program)?;
                }
            }
        }
        Ok(())
    }

    /// Removes the programs of clients that have ended.
    fn remove_ended(&mut self) -> Result<(), String> {
        let is_over = |program| {
            self.processors
                .iter()
                .all(|processor| processor.program != program || processor.has_ended)
        };
        let ended: Vec<_> = self.others.keys().copied().filter(|id| is_over(*id)).collect();
        for program in ended {
            let processors =
                self.processors.extract_if(.., |processor| processor.program == program);
            let processors: Vec<_> = processors.collect();
            check_end(&processors)?;
            drop(processors);
            self.remove(program)?;
        }
        Ok(())
    }

    /// Removes a program that has no processors left.
    fn remove(&mut self, program: usize) -> Result<(), String> {
        if let Some(control) = self.others.remove(&program) {
            oracle::check_calls(&control.call_graph())?;
            self.orders.record_end(program);
            self.trace.record(Step::Ended { program });
        }
        Ok(())
    }

    /// Drains the program if a client has requested it. Returns whether it did.
    pub(super) fn check_drain(&mut self) -> bool {
        let drains = self.orders.drains() && self.control.phase() == Phase::Running;
        if drains {
            self.drain();
        }
        drains
    }

    fn candidates(&self) -> Vec<Next> {
        let (now, changes) = (self.outside.now(), self.outside.changes());
        let mut all = Vec::new();
        for (number, sim) in
            self.processors.iter().enumerate().filter(|(_, processor)| processor.may_step())
        {
            match sim.asleep {
                None => all.push(Next::Processor(number)),
                Some(_) => {
                    all.extend(sim.wakes(now).map(|reason| Next::Sleeper(number, reason)));
                }
            }
        }
        let clients = self.clients.iter().enumerate();
        all.extend(clients.filter(|(_, task)| task.may_run(changes)).map(|(n, _)| Next::Client(n)));
        workers::steps(now, |step| all.push(Next::Worker(step)));
        all
    }

    /// The time of the next event.
    pub(super) fn next_event(&self) -> Option<u64> {
        let now = self.outside.now();
        let wakes = self.processors.iter().filter(|sim| sim.may_step()).map(SimProcessor::next);
        let ends = wakes.chain(self.outside.next_arrival()).chain(workers::next());
        ends.filter(|at| *at > now).min().filter(|next| *next < u64::MAX)
    }

    /// Handles a moment at which nothing can run: advances time to `delay` after the next event, or finds that the
    /// program is at rest or stuck.
    pub(super) fn on_idle(&mut self, delay: u64) -> Result<(), String> {
        if let Some(next) = self.next_event() {
            self.advance_to(next + delay);
            return Ok(());
        }
        if self.control.phase() == Phase::Running && self.clients.iter().all(Task::is_finished) {
            self.drain();
            return Ok(());
        }
        let waiting = self.clients.iter().filter(|task| !task.is_finished()).count();
        let remaining = oracle::describe_remaining(&self.processors);
        Err(format!("stuck: no event can happen; {waiting} clients wait; remaining:\n{remaining}"))
    }

    fn drain(&mut self) {
        self.trace.record(Step::Drained);
        self.control.drain();
        self.others.values().for_each(Control::drain);
        self.processors.iter_mut().for_each(|sim| sim.is_stopped = false);
    }

    pub(super) fn advance_to(&mut self, time: u64) {
        self.outside.advance_to(time);
        self.trace.record(Step::Time { now: time });
    }

    pub(super) fn wake(&mut self, number: usize, reason: &'static str) {
        self.processors[number].wake();
        self.trace.record(Step::Woke { processor: number, reason });
    }

    fn poll_client(&mut self, number: usize) {
        let task = &mut self.clients[number];
        task.poll(&self.outside);
        let finished = task.is_finished();
        self.trace.record(Step::Polled { client: number, finished });
        let running = self.control.phase() == Phase::Running;
        // Draining at a random time means that the program is busy in some runs and at rest in others.
        if running && self.clients.iter().all(Task::is_finished) && self.rng.bool() {
            self.drain();
        }
    }

    /// Takes one step on an awake processor.
    fn drive(&mut self, number: usize) -> Result<(), String> {
        let Self { rng, bias, processors, trace, .. } = self;
        let (processor, sim) = (number, &mut processors[number]);
        if rng.u32(..1000) < bias.direct {
            let stages = rng.u64(..);
            sim.step(|steps, _| steps.choose_direct(stages));
        }
        let ready: Vec<_> = sim.step(|steps, _| steps.ready().collect());
        if !ready.is_empty() && rng.u32(..1000) >= bias.receives {
            let stage = ready[rng.usize(..ready.len())];
            oracle::check_queue(number, sim, stage)?;
            let at_most = rng.usize(1..=bias.cohort);
            let choose = |remaining: usize| if bias.shuffles { rng.usize(..remaining) } else { 0 };
            let operations = sim.step(|steps, world| steps.run(stage, at_most, choose, world));
            trace.record(Step::Ran { processor, stage, operations });
            return Ok(());
        }
        match rng.u8(..6) {
            0 => {
                let any = sim.step(|steps, world| steps.receive(world));
                trace.record(Step::Received { processor, any });
            }
            1 => {
                sim.step(|steps, world| {
                    steps.timers(world);
                    steps.balance();
                });
                trace.record(Step::Timers { processor });
            }
            2 => {
                let remaining = sim.step(|steps, _| steps.flush());
                trace.record(Step::Flushed { processor, remaining });
            }
            3 => {
                sim.step(|_, world| world.submit());
                trace.record(Step::Submitted { processor });
            }
            _ if ready.is_empty() => self.idle_turn(number),
            _ => (),
        }
        Ok(())
    }

    /// Ends an idle turn: the processor sleeps or exits.
    pub(super) fn idle_turn(&mut self, number: usize) {
        let sim = &mut self.processors[number];
        let idle = sim.step(|steps, world| {
            let received = steps.receive(world);
            steps.timers(world);
            steps.balance();
            steps.flush();
            !received && steps.is_idle()
        });
        if sim.step(|steps, _| steps.end_turn()) && !sim.is_finishing() {
            sim.has_ended = true;
            self.trace.record(Step::Over { processor: number });
        } else if idle && sim.step(|steps, _| steps.is_idle()) && sim.try_to_sleep() {
            self.trace.record(Step::Slept { processor: number });
        }
    }

    /// Checks that the program has leaked nothing.
    pub(super) fn end(mut self) -> Result<Report, String> {
        self.check_panics()?;
        check_end(&self.processors)?;
        for control in self.others.values() {
            oracle::check_calls(&control.call_graph())?;
        }
        let calls = self.control.call_graph();
        oracle::check_calls(&calls)?;
        if let Some(check) = self.calls.take() {
            check(calls);
        }
        self.clients.clear();
        let report = Report {
            seed: self.seed,
            steps: self.steps,
            time: Duration::from_nanos(self.outside.now()),
            trace: self.trace.hash(),
        };
        match self.outside.open_sockets() {
            0 => self.after_shutdown.take().into_iter().for_each(|check| check()),
            open => return Err(format!("the program has leaked {open} open sockets")),
        }
        Ok(report)
    }
}

/// Checks processors that have ended.
fn check_end(processors: &[SimProcessor]) -> Result<(), String> {
    for (number, sim) in processors.iter().enumerate() {
        oracle::check_invariants(number, sim)?;
    }
    processors.iter().for_each(SimProcessor::reclaim);
    oracle::check_at_rest(processors)
}
