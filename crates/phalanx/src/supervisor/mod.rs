//! Supervision of a running program, on the thread that called `run`: start, drain, deadline, stall detection and
//! exit.
//!
//! Processors send an [`Event`] for each change. The supervisor polls only for stalls and loads, and does so less and
//! less often while all processors sleep ([`idle`]).

mod idle;
mod signals;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use phalanx_core::{Control, LARGE_OPERATION, Phase};

pub(crate) use self::idle::SupervisorIdle;
use self::idle::{NextPoll, Polls};
pub(crate) use self::signals::Signals;
use crate::cores::keep_to_slow_cores;
use crate::diagnostics::stuck::{self, ShutdownWatch};
use crate::diagnostics::tracing_events::{self, ShedCounts};
use crate::diagnostics::{DeadlockDetector, StallDetector, report};
use crate::program::{ExitReport, Leaks, RunError};
use crate::scaling::Scaler;

/// A deadline that is never reached. It applies after the end, because the kernel may take any time to return buffers,
/// and it bounds the drain, because an [`Instant`] has a limited range.
const NO_TIMEOUT: Duration = Duration::from_secs(365 * 24 * 3600);

/// Messages to the supervisor.
pub(crate) enum Event {
    Started,
    /// A processor has exited with these leaks.
    Exited(usize, Result<Leaks, RunError>),
    Signal,
    /// An operation has started the drain.
    Draining,
    /// A processor has found an operation type that needs much memory.
    LargeOperation {
        stage: &'static str,
        operation: &'static str,
        bytes: usize,
    },
    /// An operation has created an object that its stage does not declare.
    UndeclaredObject {
        stage: &'static str,
        object: &'static str,
        bytes: usize,
        declared: usize,
    },
    /// A processor has woken while the supervisor is idle.
    Awake,
    /// A processor has not been idle for a while.
    Saturated,
}

/// The program under supervision.
pub(crate) struct Supervised {
    /// Processors that have not started yet.
    pub(crate) starting: usize,
    /// Processors that have not exited yet.
    pub(crate) running: usize,
    /// Time limit of the drain.
    pub(crate) drain: Duration,
    /// Stall detection, unless disabled.
    pub(crate) stalls: Option<StallDetector>,
    /// Detection of operations that wait for each other, unless disabled.
    pub(crate) deadlocks: Option<DeadlockDetector>,
    /// Automatic placement, unless it is off.
    pub(crate) scaler: Option<Scaler>,
    /// Set if stall detection or automatic scaling polls.
    pub(crate) idle: Option<Arc<SupervisorIdle>>,
    /// Whether to exit the process if the program is stuck.
    pub(crate) exits: bool,
}

/// Ends the program if the supervisor panics, for example in the `ready` hook. The scope joins the
/// processors' threads, so the panic would otherwise wait for them forever.
struct EndOnPanic<'a>(&'a Control);

impl Drop for EndOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.end();
        }
    }
}

/// Waits until all processors have started, then until all have exited.
pub(crate) fn supervise(
    supervised: Supervised,
    inbox: &Receiver<Event>,
    control: &Control,
    ready: impl FnOnce(),
) -> Result<ExitReport, RunError> {
    let _end = EndOnPanic(control);
    let mut supervision = Supervision::new(supervised, control);
    let mut ready = Some(ready);
    // Only after the hook, because threads inherit the cores of the thread that starts them.
    let mut slow_cores = None;
    while supervision.remaining > 0 {
        let now = Instant::now();
        supervision.enforce_limit(now);
        let wake = supervision.next_wake(now);
        match inbox.recv_timeout(wake.saturating_duration_since(now)) {
            Ok(event) => supervision.handle(event),
            Err(RecvTimeoutError::Timeout) => (),
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if supervision.starting == 0
            && let Some(ready) = ready.take()
        {
            tracing_events::started(supervision.report.processors.len());
            ready();
            slow_cores = Some(keep_to_slow_cores());
        }
    }
    drop(slow_cores);
    supervision.finish()
}

/// A supervision in progress.
struct Supervision<'a> {
    control: &'a Control,
    /// Processors that have not started yet.
    starting: usize,
    /// Processors that have not exited yet.
    remaining: usize,
    /// Whether each processor runs.
    running: Vec<bool>,
    /// Time limit of the drain.
    drain: Duration,
    /// The time at which the current phase ends, once the program drains.
    deadline: Option<Instant>,
    stalls: Option<StallDetector>,
    next_stall_check: Instant,
    deadlocks: Option<DeadlockDetector>,
    scaler: Option<Scaler>,
    polls: Option<Polls>,
    /// Whether to exit the process if the program is stuck.
    exits: bool,
    shutdown_watch: Option<ShutdownWatch>,
    sheds: ShedCounts,
    /// The operations and objects that were reported, by stage. Each processor reports each of them once.
    reported: Vec<(&'static str, &'static str)>,
    report: ExitReport,
    result: Result<(), RunError>,
}

impl<'a> Supervision<'a> {
    fn new(supervised: Supervised, control: &'a Control) -> Self {
        let Supervised { starting, running, drain, stalls, deadlocks, scaler, idle, exits } =
            supervised;
        Self {
            control,
            starting,
            remaining: running,
            running: vec![true; starting],
            drain,
            deadline: None,
            stalls,
            next_stall_check: Instant::now(),
            deadlocks,
            scaler,
            polls: idle.map(Polls::new),
            exits,
            shutdown_watch: None,
            sheds: ShedCounts::default(),
            reported: Vec::new(),
            report: ExitReport { processors: vec![Leaks::default(); starting] },
            result: Ok(()),
        }
    }

    /// Starts the time limit of a drain, and ends the program when it has passed.
    fn enforce_limit(&mut self, now: Instant) {
        if self.deadline.is_none() && self.control.phase() > Phase::Running {
            self.deadline = Some(now + self.drain.min(NO_TIMEOUT));
            tracing_events::draining(self.drain);
        }
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            // The remaining operations may wait for each other.
            if let Some(deadlocks) = &mut self.deadlocks {
                deadlocks.inspect(self.control);
            }
            tracing_events::cancelling();
            self.control.end();
            self.deadline = Some(now + NO_TIMEOUT);
        }
    }

    /// Performs the checks that are due. Returns the time of the next one.
    fn next_wake(&mut self, now: Instant) -> Instant {
        let control = self.control;
        let mut wake = self.deadline.unwrap_or(now + NO_TIMEOUT);
        if let Some(next) = self.sheds.report(control) {
            wake = wake.min(next);
        }
        if control.phase() == Phase::Ending {
            let shutdown_watch =
                self.shutdown_watch.get_or_insert_with(|| ShutdownWatch::start(control));
            if shutdown_watch.is_stuck(control) {
                stuck::report(control, &self.running);
                if self.exits {
                    stuck::exit();
                }
            }
            wake = wake.min(shutdown_watch.next_check());
        }
        if let Some(deadlocks) = &mut self.deadlocks
            && let Some(next) = deadlocks.check(now, control)
        {
            wake = wake.min(next);
        }
        let poll = self.poll(now);
        if let (Some(polls), Some(poll)) = (&mut self.polls, poll) {
            match polls.next(now) {
                NextPoll::Planned => {
                    self.note_awake();
                    wake = wake.min(poll);
                }
                NextPoll::At(next) => wake = wake.min(poll.max(next)),
                // Report stalls that have just ended.
                NextPoll::Woken => self.check_stalls(),
            }
        }
        wake
    }

    /// Polls for stalls and loads, if it is time. Returns the time of the next poll.
    fn poll(&mut self, now: Instant) -> Option<Instant> {
        let mut poll = None;
        if let Some(stalls) = &mut self.stalls {
            if self.next_stall_check <= now {
                self.next_stall_check = stalls.check(self.control);
            }
            poll = Some(self.next_stall_check);
        }
        if let Some(scaler) = &mut self.scaler {
            scaler.sample_if_due(now);
            poll = Some(poll.map_or(scaler.next(), |next| next.min(scaler.next())));
        }
        poll
    }

    fn check_stalls(&mut self) {
        if let Some(stalls) = &mut self.stalls {
            stalls.check(self.control);
        }
    }

    fn note_awake(&mut self) {
        if let Some(deadlocks) = &mut self.deadlocks {
            deadlocks.note_awake();
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Started => self.starting -= 1,
            Event::Exited(processor, outcome) => self.exited(processor, outcome),
            Event::Signal => match self.control.phase() {
                Phase::Running => self.control.drain(),
                Phase::Draining => self.deadline = Some(Instant::now()),
                Phase::Ending => {
                    stuck::report(self.control, &self.running);
                    stuck::exit();
                }
            },
            Event::LargeOperation { stage, operation, bytes } => {
                if self.is_first(stage, operation) {
                    report_large_operation(stage, operation, bytes);
                }
            }
            Event::UndeclaredObject { stage, object, bytes, declared } => {
                if self.is_first(stage, object) {
                    report_undeclared_object(stage, object, bytes, declared);
                }
            }
            Event::Saturated => {
                if let Some(scaler) = &mut self.scaler {
                    scaler.sample_soon();
                }
            }
            Event::Awake => self.note_awake(),
            Event::Draining => (),
        }
    }

    fn exited(&mut self, processor: usize, outcome: Result<Leaks, RunError>) {
        self.remaining -= 1;
        self.running[processor] = false;
        if let Some(shutdown_watch) = &mut self.shutdown_watch {
            shutdown_watch.record_progress();
        }
        match outcome {
            Ok(leaks) => self.report.processors[processor] = leaks,
            Err(error) => {
                tracing_events::failed(&error);
                self.control.end();
                if self.result.is_ok() {
                    self.result = Err(error);
                }
            }
        }
    }

    /// Whether this operation or object of a stage was not reported before.
    fn is_first(&mut self, stage: &'static str, item: &'static str) -> bool {
        let is_first = !self.reported.contains(&(stage, item));
        if is_first {
            self.reported.push((stage, item));
        }
        is_first
    }

    fn finish(mut self) -> Result<ExitReport, RunError> {
        // Report stalls that ended after the last check.
        self.check_stalls();
        if self.deadline.is_none() && self.control.phase() > Phase::Running {
            // The program ended before the loop observed the drain.
            tracing_events::draining(self.drain);
        }
        tracing_events::stopped();
        self.result.map(|()| self.report)
    }
}

/// Reports an object that is larger than those that its stage declares, as a `tracing` event and on stderr.
fn report_undeclared_object(stage: &str, object: &str, bytes: usize, declared: usize) {
    report(format_args!(
        "an operation of stage {stage:?} keeps an object of {bytes} bytes, and the stage declares at most \
         {declared}: {object}; declare it by StageOptions::object, so that cohorts and budgets count it"
    ));
    tracing_events::undeclared_object(stage, object, bytes, declared);
}

/// Reports a large operation as a `tracing` event and, in debug builds, on stderr.
fn report_large_operation(stage: &str, operation: &str, bytes: usize) {
    if cfg!(debug_assertions) {
        report(format_args!(
            "an operation of stage {stage:?} needs {bytes} bytes, more than \
             {LARGE_OPERATION}: {operation}; box large values that live across an `await`"
        ));
    }
    tracing_events::large_operation(stage, operation, bytes);
}
