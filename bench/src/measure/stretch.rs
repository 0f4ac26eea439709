//! Measured stretches of work: their time, and the hardware events of their threads where the machine counts them.
//!
//! A benchmark begins a stretch where it starts its clock, and names it at the end. Every report prints the events of the
//! stretches measured for it (`take`).

use std::fmt::Display;
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use crate::measure::record::record;
use crate::measure::stats::median;
use crate::system::hardware::{Events, HardwareCounters, Part};

record! {
    /// Hardware events of an operation; medians of the stretches.
    #[derive(serde::Deserialize)]
    pub(crate) struct StretchRow, fn new(of: String, counted: Part, all: &[Events]) where {
        let events = Events::combine(all, median);
    } {
        /// The measured work.
        of: String => "of", 0;
        /// `all`, with the kernel, or `user`, without it, if the kernel permits no more.
        part: String => "part", 0 = counted.name().to_owned();
        stretches: usize => "stretches", 0 = all.len();
        /// Executed instructions.
        instructions: Option<f64> => "instructions", 1 = events.instructions;
        cycles: Option<f64> => "cycles", 1 = events.cycles;
        /// Misses of the first-level instruction cache.
        l1_instruction_misses: Option<f64> => "L1i misses", 2 = events.l1_instruction_misses;
        /// Read misses of the first-level data cache.
        l1_data_misses: Option<f64> => "L1d misses", 2 = events.l1_data_misses;
        /// Misses of the second-level cache.
        l2_misses: Option<f64> => "L2 misses", 2 = events.l2_misses;
        /// Read misses of the last-level cache.
        last_level_misses: Option<f64> => "last-level", 3 = events.last_level_misses;
        /// Mispredicted branches.
        branch_misses: Option<f64> => "branches", 2 = events.branch_misses;
    }
}

/// The field of a report's JSON with the rows.
pub(crate) const FIELD: &str = "hardware_events";

/// Events of each operation in the stretches so far.
static MEASURED: Mutex<Vec<(String, Part, Vec<Events>)>> = Mutex::new(Vec::new());

/// Rows of other processes.
static ROWS: Mutex<Vec<StretchRow>> = Mutex::new(Vec::new());

/// The part that the kernel permits to count, if any. Stretches without counters make no system call.
fn permitted() -> Option<Part> {
    static PERMITTED: OnceLock<Option<Part>> = OnceLock::new();
    let is_permitted = |part: &Part| HardwareCounters::start_from_here(*part).is_ok();
    *PERMITTED.get_or_init(|| [Part::All, Part::User].into_iter().find(is_permitted))
}

/// A stretch that has begun.
pub(crate) struct Stretch {
    counters: Option<(HardwareCounters, Part)>,
    start: Instant,
}

impl Stretch {
    /// Begins a stretch of this thread, and of the threads and processes that it starts.
    pub(crate) fn begin() -> Self {
        Self::with(HardwareCounters::start_from_here)
    }

    /// Begins a stretch of the other threads of this process, and of those that they start.
    pub(crate) fn begin_elsewhere() -> Self {
        Self::with(HardwareCounters::start_elsewhere)
    }

    /// Begins a stretch of the threads of other processes.
    pub(crate) fn begin_of(processes: &[u32]) -> Self {
        Self::with(|part| HardwareCounters::start(processes, part))
    }

    fn with(start: impl Fn(Part) -> std::io::Result<HardwareCounters>) -> Self {
        let counters = permitted().and_then(|part| Some((start(part).ok()?, part)));
        Self { counters, start: Instant::now() }
    }

    /// Ends the stretch.
    pub(crate) fn end(self) -> Ended {
        let elapsed = self.start.elapsed();
        let events = self.counters.and_then(|(mut counters, part)| {
            let events = counters.read().ok()?;
            Some((events, part))
        });
        Ended { elapsed, events }
    }
}

/// A stretch that has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    pub(crate) elapsed: Duration,
    events: Option<(Events, Part)>,
}

impl Ended {
    /// Adds the events of the stretch to the report, as those of this number of operations, and returns the nanoseconds of
    /// an operation.
    pub(crate) fn of(self, name: impl Display, operations: usize) -> f64 {
        if let Some((events, part)) = self.events {
            add(&name.to_string(), part, events.divided_by(operations as f64));
        }
        self.elapsed.as_nanos() as f64 / operations as f64
    }
}

/// Measures a stretch of this thread. Returns the nanoseconds of an operation.
pub(crate) fn time(name: impl Display, operations: usize, work: impl FnOnce()) -> f64 {
    let stretch = Stretch::begin();
    work();
    stretch.end().of(name, operations)
}

/// Adds the events of an operation in a stretch.
pub(crate) fn add(name: &str, part: Part, events: Events) {
    let mut measured = MEASURED.lock().expect("no panic");
    match measured.iter_mut().find(|(other, of, _)| other == name && *of == part) {
        Some((.., all)) => all.push(events),
        None => measured.push((name.to_owned(), part, vec![events])),
    }
}

/// Adds the rows of another process.
pub(crate) fn add_rows(rows: Vec<StretchRow>) {
    ROWS.lock().expect("no panic").extend(rows);
}

/// The events of all stretches since the last call: the rows of other processes, and then those of this process in the
/// order of their first stretches.
pub(crate) fn take() -> Vec<StretchRow> {
    let measured = std::mem::take(&mut *MEASURED.lock().expect("no panic"));
    let row = |(of, part, all): (String, Part, Vec<Events>)| StretchRow::new(of, part, &all);
    let mut rows = std::mem::take(&mut *ROWS.lock().expect("no panic"));
    rows.extend(measured.into_iter().map(row));
    rows
}
