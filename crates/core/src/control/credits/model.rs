//! A model of a server, its machine and its clients for testing admission control.
//!
//! In each turn the processor reads arrivals, admits or rejects them, and works. A response takes several passes, and
//! each turn gives every request in flight one pass, so they share the processor. The client reads one response after
//! the other and holds a credit until it has read the response, so the operations in flight include more than the
//! server's own work. The machine may stall the server or the client.

use std::collections::VecDeque;

use super::Credits;

pub(super) const MS: u64 = 1_000_000;
/// The response time that a client expects, in nanoseconds.
pub(super) const OBJECTIVE: u64 = 50 * MS;
pub(super) const TARGET: u64 = 10 * MS;
pub(super) const INTERVAL: u64 = 10 * MS;
/// The minimum number of turns in an interval, as in `stage::queue_delay`.
const TURNS: u32 = 3;
/// Operations per turn, as in a stage that uses sockets.
const COHORT: usize = 64;
/// The fixed cost of a turn, in nanoseconds.
const TURN: u64 = 5_000;

/// The parameters of a simulation.
#[derive(Clone, Debug)]
pub(super) struct World {
    /// Nanoseconds of work per admitted request.
    pub(super) service: u64,
    /// The number of passes that this work takes.
    pub(super) passes: u64,
    /// The factor by which work and passes of one request in ten are larger; one if all are alike.
    pub(super) large: u64,
    /// Nanoseconds per rejection.
    pub(super) refusal: u64,
    /// The nanoseconds that the client takes to read a response.
    pub(super) reading: u64,
    /// The maximum number of concurrent requests of the client.
    pub(super) connections: usize,
    pub(super) target: u64,
    /// The current slowdown factor.
    pub(super) slowdown: f64,
}

impl World {
    pub(super) fn new(service: u64, refusal: f64) -> Self {
        Self {
            service,
            passes: 1,
            large: 1,
            refusal: (service as f64 * refusal) as u64,
            reading: 0,
            connections: 2000,
            target: TARGET,
            slowdown: 1.0,
        }
    }

    /// The mean work of a request, in nanoseconds.
    fn mean(&self) -> f64 {
        self.service as f64 * (0.9 + 0.1 * self.large as f64)
    }
}

/// An admitted request.
struct Job {
    due: u64,
    queued: u64,
    passes: u64,
    /// The interval in which it was admitted.
    interval: u64,
}

/// A response that the client has not read yet.
struct Answer {
    read: u64,
    /// The interval in which its request was admitted; `None` for a rejection.
    admitted: Option<u64>,
}

/// The results of one run.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) in_time: usize,
    pub(super) rejected: usize,
    /// The latencies of served requests, in nanoseconds.
    pub(super) latency: Vec<u64>,
}

impl Outcome {
    pub(super) fn p99(&mut self) -> u64 {
        self.latency.sort_unstable();
        self.latency.get(self.latency.len() * 99 / 100).copied().unwrap_or(0)
    }
}

pub(super) struct Server {
    pub(super) world: World,
    pub(super) credits: Credits,
    now: u64,
    random: u64,
    /// The mean gap between arrivals, in nanoseconds; `None` in a closed loop.
    gap: Option<f64>,
    next: u64,
    /// Requests waiting for a connection; then those that have arrived, with the time when the server
    /// noticed them.
    backlog: VecDeque<u64>,
    arrived: VecDeque<(u64, u64)>,
    work: VecDeque<Job>,
    answers: VecDeque<Answer>,
    in_flight: usize,
    last_turn: u64,
    turns: u32,
    interval_start: u64,
    /// The smallest delays of this interval: before arrival is noticed, before admission, and in the
    /// queue.
    smallest: [u64; 3],
}

impl Server {
    pub(super) fn new(world: World, seed: u64) -> Self {
        Self {
            credits: Credits::new(world.target),
            world,
            now: 0,
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            gap: None,
            next: 0,
            backlog: VecDeque::new(),
            arrived: VecDeque::new(),
            work: VecDeque::new(),
            answers: VecDeque::new(),
            in_flight: 0,
            last_turn: 0,
            turns: 0,
            interval_start: 0,
            smallest: [u64::MAX; 3],
        }
    }

    fn uniform(&mut self) -> f64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        ((self.random >> 11) as f64 + 1.0) / (1u64 << 53) as f64
    }

    /// Runs an open loop; `load` is relative to the capacity.
    pub(super) fn run(&mut self, load: f64, duration: u64) -> Outcome {
        if self.gap.is_none() {
            self.next = self.now;
        }
        self.gap = Some(self.world.mean() / load);
        self.advance(duration)
    }

    /// Runs a closed loop: each client sends its next request when it has its response.
    pub(super) fn run_closed(&mut self, duration: u64) -> Outcome {
        self.gap = None;
        let idle = self.world.connections - self.in_flight;
        self.arrived.extend(std::iter::repeat_n((self.now, self.now), idle));
        self.in_flight += idle;
        self.advance(duration)
    }

    /// Stalls the server. Requests of that time arrive together afterwards.
    pub(super) fn stall(&mut self, duration: u64) {
        self.now += duration;
    }

    fn advance(&mut self, duration: u64) -> Outcome {
        let (mut outcome, end) = (Outcome::default(), self.now + duration);
        while self.now < end {
            self.advance_clients();
            if self.arrived.is_empty() && self.work.is_empty() {
                let answer = self.answers.front().map(|answer| answer.read);
                let next = self.gap.map(|_| self.next);
                self.now = answer.into_iter().chain(next).min().unwrap_or(end).max(self.now);
                self.last_turn = self.now;
                self.advance_clients();
            }
            self.turn(&mut outcome);
        }
        outcome
    }

    /// Advances the clients to the current time.
    fn advance_clients(&mut self) {
        while self.answers.front().is_some_and(|answer| answer.read <= self.now) {
            let Some(answer) = self.answers.pop_front() else { break };
            if let Some(interval) = answer.admitted {
                self.credits.release(interval);
            }
            match self.gap {
                None => self.arrived.push_back((answer.read, self.now)),
                Some(_) => self.in_flight -= 1,
            }
        }
        while let Some(gap) = self.gap
            && self.next <= self.now
        {
            self.backlog.push_back(self.next);
            self.next += (-self.uniform().ln() * gap) as u64 + 1;
        }
        while self.in_flight < self.world.connections
            && let Some(due) = self.backlog.pop_front()
        {
            self.in_flight += 1;
            self.arrived.push_back((due, self.now));
        }
    }

    fn spend(&mut self, time: u64) {
        self.now += (time as f64 * self.world.slowdown) as u64;
    }

    /// Sends a response. Returns the time at which the client has read it.
    fn answer(&mut self, admitted: Option<u64>) -> u64 {
        let reading = if admitted.is_some() { self.world.reading } else { self.world.reading / 4 };
        let read = self.answers.back().map_or(0, |last| last.read).max(self.now) + reading;
        self.answers.push_back(Answer { read, admitted });
        read
    }

    fn wait(&mut self, place: usize, wait: u64) {
        self.smallest[place] = self.smallest[place].min(wait);
    }

    fn turn(&mut self, outcome: &mut Outcome) {
        let noticed = self.arrived.front().map_or(self.now, |arrival| arrival.1);
        let has_arrived = self.arrived.back().is_some_and(|arrival| arrival.1 == self.now);
        let advance_clients = if has_arrived { self.now - self.last_turn } else { 0 };
        self.wait(0, advance_clients);
        self.wait(1, self.now - noticed);
        self.last_turn = self.now;
        self.turns += 1;
        if self.now - self.interval_start >= INTERVAL && self.turns >= TURNS {
            let wait = self.smallest.iter().sum();
            self.credits.interval_over(wait, self.now - self.interval_start);
            (self.interval_start, self.turns, self.smallest) = (self.now, 0, [u64::MAX; 3]);
        }
        for _ in 0..self.arrived.len().min(COHORT) {
            let Some((due, _)) = self.arrived.pop_front() else { break };
            if let Some(interval) = self.credits.acquire() {
                let large = if self.uniform() < 0.1 { self.world.large } else { 1 };
                let passes = self.world.passes * large;
                self.work.push_back(Job { due, queued: self.now, passes, interval });
            } else {
                self.spend(self.world.refusal);
                self.answer(None);
                outcome.rejected += 1;
            }
        }
        let queued = self.work.front().map_or(self.now, |job| job.queued);
        self.wait(2, self.now - queued);
        for _ in 0..self.work.len().min(COHORT) {
            let Some(mut job) = self.work.pop_front() else { break };
            self.spend(self.world.service / self.world.passes);
            job.passes -= 1;
            if job.passes > 0 {
                job.queued = self.now;
                self.work.push_back(job);
                continue;
            }
            let latency = self.answer(Some(job.interval)) - job.due;
            outcome.in_time += usize::from(latency <= OBJECTIVE);
            outcome.latency.push(latency);
        }
        self.spend(TURN);
    }
}
