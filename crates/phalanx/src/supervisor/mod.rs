//! Supervision of a running program, on the thread that called `run`: start, drain, deadline, stall detection and
//! exit.
//!
//! Processors send an [`Event`] for each change. Stalls and loads are the exception: the supervisor polls for them, and
//! less and less often while all processors sleep ([`idle`]).

mod idle;
mod signals;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use phalanx_core::{Control, LARGE_OPERATION, Phase};

pub(crate) use self::idle::SupervisorIdle;
use self::idle::{NextPoll, Polls};
pub(crate) use self::signals::Signals;
use crate::diagnostics::stuck::{self, Ending};
use crate::diagnostics::tracing_events::{self, Sheds};
use crate::diagnostics::{DeadlockDetector, StallDetector, report};
use crate::program::{ExitReport, Leaks, RunError};
use crate::scaling::Scaler;

/// The deadline after the end, because the kernel may take any time to return buffers; and the longest drain, since the
/// clock ends.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// Messages to the supervisor.
pub(crate) enum Event {
    Started,
    /// A processor has exited with these leaks.
    Exited(usize, Result<Leaks, RunError>),
    Signal,
    /// An operation has started the drain.
    Draining,
    /// A processor has found a type of operation that needs much memory.
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
pub(crate) struct Watched {
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
    /// Set if there is either.
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
    watched: Watched,
    inbox: &Receiver<Event>,
    control: &Control,
    ready: impl FnOnce(),
) -> Result<ExitReport, RunError> {
    let _end = EndOnPanic(control);
    let Watched { mut starting, mut running, drain, mut stalls, mut scaler, idle, exits, .. } =
        watched;
    let mut deadlocks = watched.deadlocks;
    let mut polls = idle.map(Polls::new);
    let processors = running;
    let mut ready = Some(ready);
    let mut deadline: Option<Instant> = None;
    let mut next_check = Instant::now();
    let mut ended = ExitReport { processors: vec![Leaks::default(); starting] };
    let mut alive = vec![true; starting];
    let mut ending: Option<Ending> = None;
    let mut result = Ok(());
    let mut sheds = Sheds::default();
    let mut wide = Vec::new();
    while running > 0 {
        let now = Instant::now();
        if deadline.is_none() && control.phase() > Phase::Running {
            deadline = Some(now + drain.min(FOREVER));
            tracing_events::draining(drain);
        }
        if deadline.is_some_and(|deadline| deadline <= now) {
            // The remaining operations may wait for each other.
            deadlocks.iter_mut().for_each(|deadlocks| deadlocks.inspect(control));
            tracing_events::ending();
            control.end();
            deadline = Some(now + FOREVER);
        }
        let mut wake = deadline.unwrap_or(now + FOREVER);
        if let Some(next) = sheds.report(control) {
            wake = wake.min(next);
        }
        if control.phase() == Phase::Ending {
            let ending = ending.get_or_insert_with(|| Ending::begin(control));
            if ending.is_stuck(control) {
                stuck::report(control, &alive);
                if exits {
                    stuck::exit();
                }
            }
            wake = wake.min(ending.next_check());
        }
        if let Some(next) = deadlocks.as_mut().and_then(|deadlocks| deadlocks.check(now, control)) {
            wake = wake.min(next);
        }
        let mut poll = None;
        if let Some(stalls) = &mut stalls {
            if next_check <= now {
                next_check = stalls.check(control);
            }
            poll = Some(next_check);
        }
        if let Some(scaler) = &mut scaler {
            scaler.sample_if_due(now);
            poll = Some(poll.map_or(scaler.next(), |next| next.min(scaler.next())));
        }
        if let (Some(polls), Some(poll)) = (&mut polls, poll) {
            match polls.next(now) {
                NextPoll::Planned => {
                    deadlocks.iter_mut().for_each(DeadlockDetector::note_awake);
                    wake = wake.min(poll);
                }
                NextPoll::At(next) => wake = wake.min(poll.max(next)),
                // Report stalls that have just ended.
                NextPoll::Woken => _ = stalls.as_mut().map(|stalls| stalls.check(control)),
            }
        }
        match inbox.recv_timeout(wake.saturating_duration_since(now)) {
            Ok(Event::Started) => {
                starting -= 1;
                if starting == 0
                    && let Some(ready) = ready.take()
                {
                    tracing_events::started(processors);
                    ready();
                }
            }
            Ok(Event::Exited(processor, outcome)) => {
                running -= 1;
                alive[processor] = false;
                ending.iter_mut().for_each(Ending::progressed);
                match outcome {
                    Ok(left) => ended.processors[processor] = left,
                    Err(error) => {
                        tracing_events::failed(&error);
                        control.end();
                        result = result.and(Err(error));
                    }
                }
            }
            Ok(Event::Signal) => match control.phase() {
                Phase::Running => control.drain(),
                Phase::Draining => deadline = Some(Instant::now()),
                Phase::Ending => {
                    stuck::report(control, &alive);
                    stuck::exit();
                }
            },
            Ok(Event::LargeOperation { stage, operation, bytes }) => {
                // Each processor reports a type once.
                if !wide.contains(&(stage, operation)) {
                    wide.push((stage, operation));
                    report_large_operation(stage, operation, bytes);
                }
            }
            Ok(Event::UndeclaredObject { stage, object, bytes, declared }) => {
                // Each processor reports it once.
                if !wide.contains(&(stage, object)) {
                    wide.push((stage, object));
                    report_undeclared_object(stage, object, bytes, declared);
                }
            }
            Ok(Event::Saturated) => scaler.iter_mut().for_each(Scaler::sample_soon),
            Ok(Event::Awake) => deadlocks.iter_mut().for_each(DeadlockDetector::note_awake),
            Ok(Event::Draining) | Err(RecvTimeoutError::Timeout) => (),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    // Report stalls that ended after the last check.
    if let Some(stalls) = &mut stalls {
        stalls.check(control);
    }
    if deadline.is_none() && control.phase() > Phase::Running {
        // The program ended before the loop saw the drain.
        tracing_events::draining(drain);
    }
    tracing_events::stopped();
    result.map(|()| ended)
}

/// Reports an object that is larger than those which its stage declares: as a `tracing` event and on stderr.
fn report_undeclared_object(stage: &str, object: &str, bytes: usize, declared: usize) {
    report(format_args!(
        "an operation of stage {stage:?} keeps an object of {bytes} bytes, and the stage declares at most \
         {declared}: {object}; declare it by StageOptions::object, so that cohorts and budgets count it"
    ));
    tracing_events::undeclared_object(stage, object, bytes, declared);
}

/// Reports a large operation: as a `tracing` event, and in debug builds on stderr.
fn report_large_operation(stage: &str, operation: &str, bytes: usize) {
    if cfg!(debug_assertions) {
        report(format_args!(
            "an operation of stage {stage:?} needs {bytes} bytes, more than \
             {LARGE_OPERATION}: {operation}; box large values that live across an `await`"
        ));
    }
    tracing_events::large_operation(stage, operation, bytes);
}
