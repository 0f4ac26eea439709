//! Who goes next: the loop of a simulated run.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use fastrand::Rng;
use phalanx_core::{Control, Phase, World as _};

use super::client::Task;
use super::schedule_bias::{ScheduleBias, sizes};
use super::sim_processor::{Bell, SimProcessor};
use super::trace::{Did, Trace};
use super::workers::{self, Chore};
use super::world::World;
use super::{Report, fault, oracle};
use crate::io::Io;
use crate::worker_thread::StartContext;

/// A run under way.
struct Run {
    seed: u64,
    rng: Rng,
    bias: ScheduleBias,
    outside: phalanx_driver::sim::World,
    control: Control,
    places: Vec<SimProcessor>,
    clients: Vec<Task>,
    ends: bool,
    drains: Rc<Cell<bool>>,
    trace: Trace,
    steps: u64,
}

/// Who may go next.
#[derive(Clone, Copy)]
enum Next {
    Processor(usize),
    Sleeper(usize, &'static str),
    Client(usize),
    Worker(Chore),
}

pub(super) fn run(world: World) -> Result<Report, String> {
    let most_steps = world.most_steps;
    let (seed, panics) = (world.seed, world.panics);
    let mut run = Run::start(world)?;
    let guard = Guard::new(seed, panics, run.outside.clone());
    let result = run.until_rest(most_steps);
    workers::stop();
    drop(guard);
    result.map_err(|failure| format!("{failure}\n{}", run.trace))?;
    run.end()
}

/// What the program's code finds on the thread while a simulation runs.
struct Guard;

impl Guard {
    fn new(seed: u64, panics: u32, world: phalanx_driver::sim::World) -> Self {
        fault::start(seed, panics, world);
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
        let World { seed, mut rng, outside, processors, ends, drains, program, clients, .. } =
            world;
        let (graph, start) = program.ok_or("there is no program in the world")?;
        let bias = ScheduleBias::drawn(&mut rng);
        let seeds = graph.build(processors);
        let control = seeds[0].control();
        let mut places = Vec::new();
        for seed in seeds {
            let index = seed.index();
            let driver = outside.driver(&sizes(&mut rng)).map_err(|error| error.to_string())?;
            let io = Io::new(seed.id(), Box::new(driver));
            let bell = Bell::new(outside.clone(), bias.wake_delay);
            let ringer = bell.clone();
            let entered = io.enter();
            let processor = seed.grow(Box::new(move || ringer.ring()));
            let started = processor.enter(|| start(&StartContext::new(index, control.clone())));
            drop(entered);
            places.push(SimProcessor::new(processor, io, outside.clone(), bell));
            started.map_err(|error| format!("the start on processor {index} failed: {error}"))?;
        }
        let (trace, steps) = (Trace::default(), 0);
        Ok(Self { seed, rng, bias, outside, control, places, clients, ends, drains, trace, steps })
    }

    fn until_rest(&mut self, most_steps: u64) -> Result<(), String> {
        while !self.is_over() {
            self.steps += 1;
            if self.steps > most_steps {
                let left = oracle::left(&self.places);
                return Err(format!("not at rest after {most_steps} steps; there are\n{left}"));
            }
            self.step()?;
            oracle::nobody_is_forgotten(&self.places)?;
        }
        Ok(())
    }

    /// Everybody has gone: clients may outlive the program.
    fn is_over(&self) -> bool {
        self.places.iter().all(|place| place.over) && self.clients.iter().all(Task::is_finished)
    }

    fn step(&mut self) -> Result<(), String> {
        if self.drains.get() && self.control.phase() == Phase::Running {
            self.finish();
        }
        if self.rng.u32(..1000) < self.bias.jumps {
            let most = if self.rng.bool() { 1_000_000 } else { 3_000_000_000 };
            let by = self.rng.u64(..most);
            self.pass_to(self.outside.now() + by);
        }
        if self.rng.u32(..1000) < self.bias.spurious {
            let sleepers = self.places.iter().enumerate();
            let sleepers: Vec<_> =
                sleepers.filter(|(_, place)| place.asleep.is_some()).map(|(n, _)| n).collect();
            if !sleepers.is_empty() {
                let sleeper = sleepers[self.rng.usize(..sleepers.len())];
                self.wake(sleeper, "for no reason");
            }
        }
        let all = self.candidates();
        if all.is_empty() {
            return self.nobody_can();
        }
        match all[self.rng.usize(..all.len())] {
            Next::Sleeper(number, reason) => self.wake(number, reason),
            Next::Client(number) => self.poll_client(number),
            Next::Worker(chore) => {
                workers::attend(chore, self.outside.now(), &mut self.rng);
                self.trace.note(Did::Blocked { chore });
            }
            Next::Processor(number) => {
                self.drive(number)?;
                if self.bias.audits || self.rng.u8(..32) == 0 {
                    oracle::agrees(number, &self.places[number])?;
                }
            }
        }
        Ok(())
    }

    fn candidates(&self) -> Vec<Next> {
        let (now, changes) = (self.outside.now(), self.outside.changes());
        let mut all = Vec::new();
        for (number, place) in self.places.iter().enumerate().filter(|(_, place)| !place.over) {
            match place.asleep {
                None => all.push(Next::Processor(number)),
                Some(_) => {
                    all.extend(place.wakes(now).map(|reason| Next::Sleeper(number, reason)));
                }
            }
        }
        let clients = self.clients.iter().enumerate();
        all.extend(clients.filter(|(_, task)| task.may_run(changes)).map(|(n, _)| Next::Client(n)));
        workers::chores(now, |chore| all.push(Next::Worker(chore)));
        all
    }

    /// Nobody can go on at this moment: time passes, or the program has come to rest, or is stuck.
    fn nobody_can(&mut self) -> Result<(), String> {
        let now = self.outside.now();
        let wakes = self.places.iter().filter(|place| !place.over).map(SimProcessor::next);
        let ends = wakes.chain(self.outside.next_arrival()).chain(workers::next());
        let next = ends.filter(|at| *at > now).min();
        if let Some(next) = next.filter(|next| *next < u64::MAX) {
            let late = if self.rng.u8(..4) == 0 { self.rng.u64(..20_000_000) } else { 0 };
            self.pass_to(next + late);
            return Ok(());
        }
        if self.control.phase() == Phase::Running && self.clients.iter().all(Task::is_finished) {
            self.finish();
            return Ok(());
        }
        let waiting = self.clients.iter().filter(|task| !task.is_finished()).count();
        let left = oracle::left(&self.places);
        Err(format!(
            "stuck: nothing will ever happen, {waiting} clients wait, and there are\n{left}"
        ))
    }

    /// Asks the program to come to its end.
    fn finish(&mut self) {
        match self.ends {
            true => {
                self.trace.note(Did::Ended);
                self.control.end();
            }
            false => {
                self.trace.note(Did::Drained);
                self.control.drain();
            }
        }
    }

    fn pass_to(&mut self, then: u64) {
        self.outside.advance_to(then);
        self.trace.note(Did::Time { now: then });
    }

    fn wake(&mut self, number: usize, reason: &'static str) {
        self.places[number].wake();
        self.trace.note(Did::Woke { processor: number, reason });
    }

    fn poll_client(&mut self, number: usize) {
        let task = &mut self.clients[number];
        task.poll(&self.outside);
        let finished = task.is_finished();
        self.trace.note(Did::Polled { client: number, finished });
        let running = self.control.phase() == Phase::Running;
        // Some find the program busy when it is asked to finish, others at rest.
        if running && self.clients.iter().all(Task::is_finished) && self.rng.bool() {
            self.finish();
        }
    }

    /// One step of an awake processor.
    fn drive(&mut self, number: usize) -> Result<(), String> {
        let Self { rng, bias, places, trace, .. } = self;
        let (processor, place) = (number, &mut places[number]);
        if rng.u32(..1000) < bias.direct {
            let stages = rng.u64(..);
            place.step(|steps, _| steps.choose_direct(stages));
        }
        let ready: Vec<_> = place.step(|steps, _| steps.ready().collect());
        if !ready.is_empty() && rng.u32(..1000) >= bias.receives {
            let stage = ready[rng.usize(..ready.len())];
            oracle::can_run(number, place, stage)?;
            let at_most = rng.usize(1..=bias.cohort);
            let choose = |left: usize| if bias.shuffles { rng.usize(..left) } else { 0 };
            let operations = place.step(|steps, world| steps.run(stage, at_most, choose, world));
            trace.note(Did::Ran { processor, stage, operations });
            return Ok(());
        }
        match rng.u8(..6) {
            0 => {
                let any = place.step(|steps, world| steps.receive(world));
                trace.note(Did::Received { processor, any });
            }
            1 => {
                place.step(|steps, world| {
                    steps.timers(world);
                    steps.balance();
                });
                trace.note(Did::Timers { processor });
            }
            2 => {
                let left = place.step(|steps, _| steps.flush());
                trace.note(Did::Flushed { processor, left });
            }
            3 => {
                place.step(|_, world| world.submit());
                trace.note(Did::Submitted { processor });
            }
            _ if ready.is_empty() => self.turn_in_vain(number),
            _ => (),
        }
        Ok(())
    }

    /// A turn that finds nothing ends in sleep, or in the processor's end.
    fn turn_in_vain(&mut self, number: usize) {
        let place = &mut self.places[number];
        let idle = place.step(|steps, world| {
            let received = steps.receive(world);
            steps.timers(world);
            steps.balance();
            steps.flush();
            !received && steps.is_idle()
        });
        if place.step(|steps, _| steps.settle()) {
            place.over = true;
            self.trace.note(Did::Over { processor: number });
        } else if idle && place.step(|steps, _| steps.is_idle()) && place.try_to_sleep() {
            self.trace.note(Did::Slept { processor: number });
        }
    }

    fn end(mut self) -> Result<Report, String> {
        for (number, place) in self.places.iter().enumerate() {
            oracle::agrees(number, place)?;
        }
        oracle::at_rest(&self.places)?;
        self.clients.clear();
        let report = Report {
            seed: self.seed,
            steps: self.steps,
            time: Duration::from_nanos(self.outside.now()),
            trace: self.trace.hash(),
        };
        match self.outside.open_sockets() {
            0 => Ok(report),
            open => Err(format!("the program has ended, and has left {open} sockets open")),
        }
    }
}
