//! The ways of running the matcher; all use the same index, checks and events.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use phalanx_matcher::{Event, Matches, Queues, Snapshot};
use serde::Serialize;

use super::Options;

/// Maximum number of events queued at the pieces with automatic cohorts, as in the stages.
const CAPACITY: usize = 4096;
/// Threads of the twin per core.
const THREADS: usize = 16;

/// Number of events matched together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cohort {
    /// A fixed number; 0 is one at a time without a queue.
    Fixed(usize),
    /// As chosen by the queues at the pieces.
    Auto,
}

impl Cohort {
    pub(super) fn size(self) -> usize {
        match self {
            Cohort::Fixed(size) => size,
            Cohort::Auto => 0,
        }
    }
}

impl FromStr for Cohort {
    type Err = String;

    fn from_str(text: &str) -> Result<Cohort, String> {
        match text.parse() {
            Ok(size) if size <= 65_536 => Ok(Cohort::Fixed(size)),
            _ if text == "auto" => Ok(Cohort::Auto),
            _ => Err("0 to 65536, or auto".to_owned()),
        }
    }
}

impl fmt::Display for Cohort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cohort::Fixed(size) => size.fmt(f),
            Cohort::Auto => f.pad("auto"),
        }
    }
}

impl Serialize for Cohort {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Cohort::Fixed(size) => serializer.serialize_u64(*size as u64),
            Cohort::Auto => serializer.serialize_str("auto"),
        }
    }
}

/// Distribution of the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// A loop on each core over separate events.
    Loop(Cohort),
    /// Each core has a part of the pieces and matches all events.
    Partition(usize),
    /// A pool of threads that take one event at a time, a counterpart of the paper's THPS.
    Twin,
}

/// All forms that are measured on a number of cores.
pub(super) fn forms(options: &Options, cores: usize) -> Vec<Form> {
    let mut forms: Vec<Form> = options.cohort.iter().map(|cohort| Form::Loop(*cohort)).collect();
    if cores > 1 {
        forms.extend([Form::Partition(1), Form::Partition(1024)]);
    }
    forms.push(Form::Twin);
    forms
}

/// A core among those at work.
#[derive(Clone, Copy)]
pub(super) struct Worker<'a> {
    pub(super) core: usize,
    pub(super) cores: usize,
    /// Index of the twin's next event.
    pub(super) next: &'a AtomicUsize,
}

/// Work and times of one thread.
pub(super) struct Part {
    pub(super) events: usize,
    pub(super) matches: usize,
    start: Instant,
    end: Instant,
}

impl Part {
    fn new() -> Part {
        let now = Instant::now();
        Part { events: 0, matches: 0, start: now, end: now }
    }

    fn rate(&self) -> f64 {
        self.events as f64 / (self.end - self.start).as_secs_f64()
    }
}

impl Form {
    pub(super) fn name(self) -> &'static str {
        match self {
            Form::Loop(_) => "loop",
            Form::Partition(_) => "partition",
            Form::Twin => "twin",
        }
    }

    pub(super) fn cohort(self) -> Cohort {
        match self {
            Form::Loop(cohort) => cohort,
            Form::Partition(1) | Form::Twin => Cohort::Fixed(0),
            Form::Partition(size) => Cohort::Fixed(size),
        }
    }

    /// Threads per core.
    pub(super) fn threads(self) -> usize {
        if self == Form::Twin { THREADS } else { 1 }
    }

    /// Events per second of all parts. With a partition an event is complete when the slowest part has matched
    /// it.
    pub(super) fn rate(self, parts: &[Part]) -> f64 {
        let rates = parts.iter().map(Part::rate);
        match self {
            Form::Loop(_) => rates.sum(),
            Form::Partition(_) => rates.fold(f64::INFINITY, f64::min),
            Form::Twin => {
                // Threads of a core share it, so only the total has a rate.
                let start = parts.iter().map(|part| part.start).min();
                let end = parts.iter().map(|part| part.end).max();
                let seconds =
                    end.zip(start).map_or(0.0, |(end, start)| (end - start).as_secs_f64());
                parts.iter().map(|part| part.events).sum::<usize>() as f64 / seconds
            }
        }
    }

    /// Matches events for about the length of a slice.
    pub(super) fn run(
        self,
        snapshot: &Snapshot,
        events: &[Event],
        worker: Worker<'_>,
        slice: Duration,
    ) -> Part {
        let mut matches = Matches::new();
        let from = worker.core * events.len() / 2 % events.len();
        match self {
            Form::Loop(Cohort::Fixed(0)) => steps(events, from, 1, slice, |events| {
                matches.clear();
                snapshot.matches(&events[0], &mut matches);
                matches.all().len()
            }),
            Form::Loop(Cohort::Fixed(size)) => steps(events, from, size, slice, |events| {
                matches.clear();
                snapshot.match_cohort(events, &mut matches);
                matches.all().len()
            }),
            Form::Loop(Cohort::Auto) => queued(snapshot, events, from, slice),
            Form::Partition(size) => steps(events, 0, size, slice, |events| {
                matches.clear();
                let (part, parts) = (worker.core as u32, worker.cores as u32);
                snapshot.match_part(events, part, parts, &mut matches);
                matches.all().len()
            }),
            Form::Twin => steps(events, 0, 1, slice, |_| {
                let at = worker.next.fetch_add(1, Ordering::Relaxed) % events.len();
                matches.clear();
                snapshot.matches(&events[at], &mut matches);
                matches.all().len()
            }),
        }
    }
}

/// Calls `step` for `size` events after another. The first call is not counted, since it allocates memory.
fn steps(
    events: &[Event],
    from: usize,
    size: usize,
    slice: Duration,
    mut step: impl FnMut(&[Event]) -> usize,
) -> Part {
    let mut part = Part::new();
    let mut at = from / size * size;
    if at + size > events.len() {
        at = 0;
    }
    step(&events[at..at + size]);
    part.start = Instant::now();
    loop {
        if at + size > events.len() {
            at = 0;
        }
        part.matches += step(&events[at..at + size]);
        part.events += size;
        at += size;
        // Do not read the clock for every fast event.
        if (part.events % 64 < size || size >= 64) && part.start.elapsed() >= slice {
            part.end = Instant::now();
            return part;
        }
    }
}

/// Queues events at the pieces as fast as possible. A piece runs when it is worthwhile and when the queues are
/// full. The first events are not counted, since they allocate memory.
fn queued(snapshot: &Snapshot, events: &[Event], from: usize, slice: Duration) -> Part {
    let mut queues: Queues<&Event> = Queues::new(snapshot.clone(), CAPACITY);
    let mut part = Part::new();
    let mut coming = events.iter().cycle().skip(from);
    let mut is_warm = false;
    loop {
        while queues.has_room() {
            queues.push(coming.next().expect("a cycle"));
            if queues.ready() > 0 {
                queues.run_ready();
            }
        }
        for _ in 0..queues.touched() {
            queues.run_oldest();
        }
        let mut settled = (0, 0);
        queues.settle(|_, found| settled = (settled.0 + 1, settled.1 + found.len()));
        if !std::mem::replace(&mut is_warm, true) {
            part.start = Instant::now();
            continue;
        }
        part.events += settled.0;
        part.matches += settled.1;
        if part.start.elapsed() >= slice {
            part.end = Instant::now();
            return part;
        }
    }
}
