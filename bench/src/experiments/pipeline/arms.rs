//! Ways to run the requests: to completion, in cohorts on the runtime, or with a thread each.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use phalanx_core::{DEFAULT_COHORT_TIME, Graph, Processor, SharedStage};

use super::calls::{Calls, Setting};
use super::code::{self, Request, STAGES};
use crate::measure::Clock;

/// Concurrent threads.
const THREADS: usize = 64;
/// Requests after which a cohort size should have been found despite noise; the tuner takes some 300,000
/// operations.
pub(crate) const MAX_WARM_UP_REQUESTS: usize = 500_000;

/// Way of running requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arm {
    /// One after another, each through all stages: plain calls without a runtime.
    ToCompletion,
    /// On the runtime: each stage an operation, in cohorts of up to this size.
    Cohort(usize),
    /// On the runtime: connections that call and await stages, with this setting.
    Calls(Setting),
    /// With a thread per request, 64 at a time, each through all stages.
    Thread,
}

/// Requests, and a runtime with one cohort size.
pub(crate) struct Line {
    arm: Arm,
    kib: u64,
    #[allow(clippy::vec_box, reason = "a request travels as a pointer")]
    requests: Vec<Box<Request>>,
    runtime: Option<Runtime>,
    calls: Option<Calls>,
}

struct Runtime {
    processor: Processor,
    clock: Clock,
    stages: Rc<Stages>,
}

/// The pipeline: its handles and the output.
struct Stages {
    handles: [SharedStage<()>; STAGES],
    #[allow(clippy::vec_box, reason = "a request travels as a pointer")]
    done: RefCell<Vec<Box<Request>>>,
}

/// Data passed from operation to operation: the request and the stages.
struct Job {
    request: Box<Request>,
    stages: Rc<Stages>,
}

/// Each operation runs its stage's code and dispatches an operation of the next stage.
macro_rules! operations {
    ($($stage:ident $number:literal $next:ident)*) => {
        $(fn $stage<const KIB: u64>(job: Job) {
            let handle = job.stages.handles[$number];
            let taken = handle.dispatch(move |_| async move {
                let mut job = job;
                code::$stage::<KIB>(&mut job.request);
                $next::<KIB>(job);
            });
            taken.expect("below the limit");
        })*
    };
}

operations! {
        read 0 parse
        parse 1 route
        route 2 check
        check 3 fetch
        fetch 4 shape
        shape 5 pack
        pack 6 send
        send 7 finish
}

fn finish<const KIB: u64>(job: Job) {
    job.stages.done.borrow_mut().push(job.request);
}

/// Calls a function with the size as a constant.
macro_rules! sized {
    ($kib:expr, $function:ident($($argument:expr),*)) => {
        match $kib {
            1 => $function::<1>($($argument),*),
            2 => $function::<2>($($argument),*),
            4 => $function::<4>($($argument),*),
            8 => $function::<8>($($argument),*),
            16 => $function::<16>($($argument),*),
            32 => $function::<32>($($argument),*),
            other => unreachable!("no stage has {other} KiB"),
        }
    };
}

impl Line {
    /// A line with `count` queued requests.
    pub(crate) fn new(arm: Arm, kib: u64, count: usize) -> Self {
        let requests = (0..count).map(|n| Box::new(Request::new(n))).collect();
        let runtime = match arm {
            Arm::Cohort(cohort) => Some(Runtime::new(cohort, count, DEFAULT_COHORT_TIME)),
            _ => None,
        };
        let calls = match arm {
            Arm::Calls(setting) => Some(Calls::new(setting)),
            _ => None,
        };
        Self { arm, kib, requests, runtime, calls }
    }

    /// The same without a time limit on cohorts; a simulator is fifty times slower.
    pub(crate) fn timeless(arm: Arm, kib: u64, count: usize) -> Self {
        let mut line = Self::new(arm, kib, count);
        if let Arm::Cohort(cohort) = arm {
            line.runtime = Some(Runtime::new(cohort, count, Duration::MAX));
        }
        line
    }

    /// The arm and its stages, for reports of hardware events.
    pub(crate) fn name(&self) -> String {
        format!("{STAGES} x {} KiB, {:?}", self.kib, self.arm)
    }

    /// Runs all requests through all stages once.
    pub(crate) fn run(&mut self) {
        match (self.arm, &self.runtime) {
            (Arm::Cohort(cohort), Some(runtime)) => {
                sized!(self.kib, in_cohorts(runtime, &mut self.requests, cohort));
            }
            (Arm::Calls(_), _) => {
                let calls = self.calls.as_ref().expect("made with the line");
                sized!(self.kib, by_calls(calls, &mut self.requests));
            }
            (Arm::Thread, _) => sized!(self.kib, in_threads(&mut self.requests)),
            _ => sized!(self.kib, to_completion(&mut self.requests)),
        }
    }

    /// Runs at most `most` requests until the runtime has found a cohort size, if it tunes one. Returns the size
    /// that it keeps, or zero.
    pub(crate) fn settle(&mut self, most: usize) -> u64 {
        if self.arm != Arm::Calls(Setting::Auto) {
            return 0;
        }
        let found = |line: &Self| line.calls.as_ref().map_or(0, Calls::found);
        for _ in 0..most / self.requests.len().max(1) {
            if found(self) > 0 {
                break;
            }
            self.run();
        }
        found(self)
    }

    /// Results of the requests, by number.
    pub(crate) fn results(&self) -> Vec<[u32; 4]> {
        let mut results: Vec<_> = self.requests.iter().map(|r| r.result()).collect();
        results.sort_unstable();
        results.into_iter().map(|(_, sum)| sum).collect()
    }
}

impl Runtime {
    fn new(cohort: usize, count: usize, time: Duration) -> Self {
        let mut graph = Graph::new();
        let names = ["1", "2", "3", "4", "5", "6", "7", "8"];
        // All other options are the runtime's defaults.
        let handles =
            names.map(|name| graph.stage(name).max_cohort(cohort).cohort_time(time).shared(()));
        let processor = graph.build(1).remove(0).build(Box::new(|| ()));
        let done = RefCell::new(Vec::with_capacity(count));
        let stages = Rc::new(Stages { handles, done });
        Self { processor, clock: Clock::new(), stages }
    }
}

fn to_completion<const KIB: u64>(requests: &mut [Box<Request>]) {
    for request in requests {
        code::all::<KIB>(request);
    }
}

#[allow(clippy::vec_box, reason = "a request travels as a pointer")]
fn in_cohorts<const KIB: u64>(runtime: &Runtime, requests: &mut Vec<Box<Request>>, cohort: usize) {
    let Runtime { processor, clock, stages } = runtime;
    processor.enter(|| {
        let mut waiting = requests.drain(..);
        loop {
            let arrived = waiting.by_ref().take(cohort);
            let arrived =
                arrived.map(|request| read::<KIB>(Job { request, stages: stages.clone() })).count();
            while processor.turn(clock).ran > 0 {}
            if arrived == 0 {
                break;
            }
        }
    });
    std::mem::swap(requests, &mut stages.done.borrow_mut());
}

#[allow(clippy::vec_box, reason = "a request travels as a pointer")]
fn by_calls<const KIB: u64>(calls: &Calls, requests: &mut Vec<Box<Request>>) {
    calls.run::<KIB>(requests);
}

fn in_threads<const KIB: u64>(requests: &mut [Box<Request>]) {
    for group in requests.chunks_mut(THREADS) {
        std::thread::scope(|scope| {
            for request in group {
                scope.spawn(move || code::all::<KIB>(request));
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_arms_compute_the_same_results() {
        let results = |arm| {
            let mut line = Line::new(arm, 2, 200);
            line.run();
            line.run();
            line.results()
        };
        let expected = results(Arm::ToCompletion);
        assert_eq!(expected.len(), 200);
        let called = [Setting::Auto, Setting::Direct, Setting::Cohort(64)].map(Arm::Calls);
        let cohorts = [1, 64, 256].map(Arm::Cohort);
        for arm in cohorts.into_iter().chain(called).chain([Arm::Thread]) {
            assert!(results(arm) == expected, "{arm:?}");
        }
    }
}
