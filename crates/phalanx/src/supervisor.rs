//! Watching over a program's life, on the thread that runs it: the start of all processors, requests
//! to finish, the deadline, long operations, and the end of all.
//!
//! It is told of everything but long operations, which it looks for; and that only while some
//! processor is awake.

use std::io::Write;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use phalanx_core::{Control, Phase, WIDE_OPERATION};

use crate::error::RunError;
use crate::exit_report::{ExitReport, Leaks};
use crate::stall_detector::StallDetector;
use crate::stuck::{self, Ending};
use crate::supervisor_idle::SupervisorIdle;
use crate::tracing_events::{self, Sheds};

/// After the deadline everything is ended, which takes as long as the kernel needs.
const FOR_EVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// What the supervisor hears.
pub(crate) enum Event {
    Started,
    /// A processor has ended; this is left of it.
    Exited(usize, Result<Leaks, RunError>),
    Signal,
    /// Some operation has asked for the program's end.
    Drains,
    /// A processor has met a type of operation that takes much memory.
    Wide {
        stage: &'static str,
        operation: &'static str,
        bytes: usize,
    },
    /// A processor is awake while the supervisor rests.
    Awake,
}

/// What there is to watch over.
pub(crate) struct Watched {
    /// Processors that must start before the program is ready.
    pub(crate) starting: usize,
    /// Processors whose end is waited for.
    pub(crate) running: usize,
    /// How long the program may drain.
    pub(crate) drain: Duration,
    /// Who looks for long operations, if somebody does.
    pub(crate) watch: Option<(StallDetector, Arc<SupervisorIdle>)>,
    /// Whether the process is exited when the program does not end.
    pub(crate) exits: bool,
}

/// Ends the program when a panic leaves the supervisor, such as one in the hook that says that all is
/// ready. The processors are threads that are joined, so the panic would wait for them for ever.
struct EndOnPanic<'a>(&'a Control);

impl Drop for EndOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.end();
        }
    }
}

/// Waits for the start of all processors, then for the end of all.
pub(crate) fn supervise(
    watched: Watched,
    inbox: &Receiver<Event>,
    control: &Control,
    ready: impl FnOnce(),
) -> Result<ExitReport, RunError> {
    let _end = EndOnPanic(control);
    let Watched { mut starting, mut running, drain, mut watch, exits } = watched;
    let processors = running;
    let mut ready = Some(ready);
    let mut deadline: Option<Instant> = None;
    let mut next_look = Instant::now();
    let mut ended = ExitReport { processors: vec![Leaks::default(); starting] };
    let mut alive = vec![true; starting];
    let mut ending: Option<Ending> = None;
    let mut result = Ok(());
    let mut sheds = Sheds::default();
    let mut wide = Vec::new();
    while running > 0 {
        let now = Instant::now();
        if deadline.is_none() && control.phase() > Phase::Running {
            deadline = Some(now + drain);
            tracing_events::draining(drain);
        }
        if deadline.is_some_and(|deadline| deadline <= now) {
            tracing_events::ending();
            control.end();
            deadline = Some(now + FOR_EVER);
        }
        let mut wake = deadline.unwrap_or(now + FOR_EVER);
        if let Some(next) = sheds.look(control) {
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
            wake = wake.min(ending.next_look());
        }
        if let Some((watch, rest)) = &mut watch {
            if next_look <= now {
                next_look = watch.look(control);
            }
            match rest.may_rest() {
                // What ran is over: that may be to be told.
                true => _ = watch.look(control),
                false => wake = wake.min(next_look),
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
            Ok(Event::Wide { stage, operation, bytes }) => {
                // Each processor says it once.
                if !wide.contains(&(stage, operation)) {
                    wide.push((stage, operation));
                    tell_of_wide(stage, operation, bytes);
                }
            }
            Ok(Event::Drains | Event::Awake) | Err(RecvTimeoutError::Timeout) => (),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    // What was still running when it was last looked at.
    if let Some((watch, _)) = &mut watch {
        watch.look(control);
    }
    if deadline.is_none() && control.phase() > Phase::Running {
        // It was over before it was looked at.
        tracing_events::draining(drain);
    }
    tracing_events::stopped();
    result.map(|()| ended)
}

/// For who writes the program, so on stderr only where it was built for finding faults.
fn tell_of_wide(stage: &str, operation: &str, bytes: usize) {
    if cfg!(debug_assertions) {
        // Nobody may be there to read it.
        let _ = writeln!(
            std::io::stderr(),
            "phalanx: an operation of stage {stage:?} takes {bytes} bytes, more than \
             {WIDE_OPERATION}: {operation}; box what is large and lives across an `await`"
        );
    }
    tracing_events::wide(stage, operation, bytes);
}
