//! The trace of a run, which consists of a hash of all steps and the last steps for the report.

use std::collections::VecDeque;
use std::fmt;

use crate::blocking::workers::WorkerStep;

/// Number of steps in the report of a failed run.
const MAX_REPORTED_STEPS: usize = 40;

/// A step of the scheduler.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Received { processor: usize, any: bool },
    Timers { processor: usize },
    Ran { processor: usize, stage: usize, operations: usize },
    Flushed { processor: usize, remaining: bool },
    Submitted { processor: usize },
    Slept { processor: usize },
    Woke { processor: usize, reason: &'static str },
    Over { processor: usize },
    Polled { client: usize, finished: bool },
    Time { now: u64 },
    Blocked { step: WorkerStep },
    Drained,
    Started { program: usize },
    Ended { program: usize },
}

impl Step {
    fn words(self) -> [u64; 4] {
        match self {
            Self::Received { processor, any } => [1, processor as u64, any.into(), 0],
            Self::Timers { processor } => [2, processor as u64, 0, 0],
            Self::Ran { processor, stage, operations } => {
                [3, processor as u64, stage as u64, operations as u64]
            }
            Self::Flushed { processor, remaining } => [4, processor as u64, remaining.into(), 0],
            Self::Submitted { processor } => [5, processor as u64, 0, 0],
            Self::Slept { processor } => [6, processor as u64, 0, 0],
            Self::Woke { processor, reason } => [7, processor as u64, reason.len() as u64, 0],
            Self::Over { processor } => [8, processor as u64, 0, 0],
            Self::Polled { client, finished } => [9, client as u64, finished.into(), 0],
            Self::Time { now } => [10, now, 0, 0],
            Self::Drained => [11, 0, 0, 0],
            Self::Started { program } => [15, program as u64, 0, 0],
            Self::Ended { program } => [16, program as u64, 0, 0],
            Self::Blocked { step: WorkerStep::Begin(workers) } => [13, workers as u64, 0, 0],
            Self::Blocked { step: WorkerStep::Finish(workers, call) } => {
                [14, workers as u64, call as u64, 0]
            }
        }
    }
}

/// The steps of a run.
#[derive(Default)]
pub(super) struct Trace {
    hash: u64,
    last: VecDeque<Step>,
}

impl Trace {
    pub(super) fn record(&mut self, step: Step) {
        for word in step.words() {
            self.hash = (self.hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        }
        if self.last.len() == MAX_REPORTED_STEPS {
            self.last.pop_front();
        }
        self.last.push_back(step);
    }

    pub(super) fn hash(&self) -> u64 {
        self.hash
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "the last steps:")?;
        self.last.iter().try_for_each(|step| writeln!(f, "  {step:?}"))
    }
}
