//! Handling of programs that do not end because an operation never suspends, a blocking call never returns, or a
//! destructor loops. A thread cannot be stopped from outside, so the supervisor reports the cause and exits the process
//! if the runtime handles signals.

use std::time::{Duration, Instant};

use phalanx_core::{Control, Running};

use super::tracing_events;

use crate::blocking::awaited_stages;

/// The exit code of a process whose program did not end: a processor made no progress for [`END_LIMIT`] after
/// [`Control::end`], or another signal arrived. It is `EX_SOFTWARE` of `sysexits.h`.
pub const EXIT_STUCK: i32 = 70;

/// The time without progress after which an ending program is considered stuck.
pub const END_LIMIT: Duration = Duration::from_secs(5);

/// Progress of a program that is ending.
pub(crate) struct ShutdownWatch {
    observed: Vec<Option<Running>>,
    since: Instant,
    reported: bool,
}

impl ShutdownWatch {
    pub(crate) fn start(control: &Control) -> Self {
        Self { observed: control.running().collect(), since: Instant::now(), reported: false }
    }

    /// Records that a processor has exited.
    pub(crate) fn record_progress(&mut self) {
        self.since = Instant::now();
    }

    /// Time of the next check.
    pub(crate) fn next_check(&self) -> Instant {
        self.since + END_LIMIT
    }

    /// Whether there was no progress for [`END_LIMIT`]. Returns true once.
    pub(crate) fn is_stuck(&mut self, control: &Control) -> bool {
        let now = Instant::now();
        if now < self.next_check() {
            return false;
        }
        let running: Vec<_> = control.running().collect();
        let cohort = |running: &Option<Running>| running.map(|running| running.cohort);
        let moved = !running.iter().map(cohort).eq(self.observed.iter().map(cohort));
        (self.observed, self.since) = (running, now);
        !moved && !std::mem::replace(&mut self.reported, true)
    }
}

/// Reports why each remaining processor does not end.
pub(crate) fn report(control: &Control, alive: &[bool]) {
    let mut lines = String::new();
    for (processor, running) in control.running().enumerate() {
        if alive[processor] {
            lines += &format!("processor {processor} does not end: {}\n", cause(running));
        }
    }
    super::report(&lines);
    tracing_events::stuck(&lines);
}

fn cause(running: Option<Running>) -> String {
    match running {
        Some(running) => format!("{running} does not suspend"),
        None => match awaited_stages() {
            stages if stages.is_empty() => "a destructor, or the program's start".into(),
            stages => format!("blocking calls of stages {stages:?} have not returned"),
        },
    }
}

/// Exits the process.
pub(crate) fn exit() -> ! {
    super::report(format_args!("exiting with code {EXIT_STUCK}"));
    std::process::exit(EXIT_STUCK)
}
