//! A program that does not end: an operation that never suspends, a blocking call that never
//! returns, a destructor that loops. No thread can be ended from outside, so what is left is to say
//! what does not end, and to exit if the process is the runtime's to end.

use std::io::Write;
use std::time::{Duration, Instant};

use phalanx_core::{Control, Running};

use crate::blocking::awaited_stages;

/// The exit code of a process that a [`Runtime`](crate::Runtime) has ended because its program did
/// not end: after [`Control::end`], a processor made no progress for [`END_LIMIT`], or another signal
/// came. It is `EX_SOFTWARE` of `sysexits.h`.
pub const EXIT_STUCK: i32 = 70;

/// How long a program that is ended may make no progress, before it counts as stuck.
pub const END_LIMIT: Duration = Duration::from_secs(5);

/// A program that is ending: which of its processors have not ended, and since when nothing moved.
pub(crate) struct Ending {
    seen: Vec<Option<Running>>,
    since: Instant,
    reported: bool,
}

impl Ending {
    pub(crate) fn begin(control: &Control) -> Self {
        Self { seen: control.running(), since: Instant::now(), reported: false }
    }

    /// A processor has ended.
    pub(crate) fn progressed(&mut self) {
        self.since = Instant::now();
    }

    /// When to look again.
    pub(crate) fn next_look(&self) -> Instant {
        self.since + END_LIMIT
    }

    /// Whether nothing has moved for [`END_LIMIT`]. True once.
    pub(crate) fn is_stuck(&mut self, control: &Control) -> bool {
        let now = Instant::now();
        if now < self.next_look() {
            return false;
        }
        let running = control.running();
        let cohort = |running: &Option<Running>| running.map(|running| running.cohort);
        let moved = !running.iter().map(cohort).eq(self.seen.iter().map(cohort));
        (self.seen, self.since) = (running, now);
        !moved && !std::mem::replace(&mut self.reported, true)
    }
}

/// Says what keeps each processor that is alive.
pub(crate) fn report(control: &Control, alive: &[bool]) {
    let mut lines = String::new();
    for (processor, running) in control.running().into_iter().enumerate() {
        if alive[processor] {
            lines += &format!("phalanx: processor {processor} does not end: {}\n", cause(running));
        }
    }
    // A closed stderr is no reason to stop.
    let _ = std::io::stderr().write_all(lines.as_bytes());
    crate::tracing_events::stuck(&lines);
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

/// Ends the process.
pub(crate) fn exit() -> ! {
    let _ = writeln!(std::io::stderr(), "phalanx: exiting with code {EXIT_STUCK}");
    std::process::exit(EXIT_STUCK)
}
