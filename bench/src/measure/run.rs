//! The report of a run: its figures, and the conditions under which they were measured.

use serde::Serialize;

use crate::measure::machine::Machine;
use crate::measure::partial::Partial;
use crate::measure::record::{Field, Record, Shown, record};
use crate::system::hardware::Events;

/// The report of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Run<F> {
    #[serde(flatten)]
    pub(crate) figures: F,
    /// Hardware events, if the processor counts them. Absent without them, since a report may have those of stretches.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) hardware_events: Vec<EventRow>,
    /// The machine and cores of the measurement.
    pub(crate) machine: Option<Machine>,
    /// Progress, if the run was interrupted.
    pub(crate) partial: Option<Partial>,
    /// Whether this was a quick run, whose figures are meaningless.
    pub(crate) quick: bool,
}

impl<F> Run<F> {
    /// A report without hardware events.
    pub(crate) fn new(figures: F, machine: Machine, partial: Option<Partial>, quick: bool) -> Self {
        Self { figures, hardware_events: Vec::new(), machine: Some(machine), partial, quick }
    }
}

impl<F: Record> Record for Run<F> {
    fn fields() -> Vec<Field> {
        let shown = Shown::Table { fields: EventRow::fields, group: 0 };
        let title = "hardware events per request";
        [F::fields(), vec![Field { name: "hardware_events", title, shown }]].concat()
    }
}

record! {
    /// Hardware events of a server under one load, per request; medians of the slices.
    pub(crate) struct EventRow, pub(crate) fn new(
        server: String,
        connections: usize,
        rate: Option<f64>,
        part: &'static str,
        events: Events,
    ) {
        server: String => "server", 0;
        connections: usize => "connections", 0;
        /// Requests offered per second, in open loop.
        rate: Option<f64> => "offered/s", 0;
        /// `all`, with the kernel, or `user`, without it.
        part: &'static str => "part", 0;
        /// Executed instructions.
        instructions: Option<f64> => "instructions", 0 = events.instructions;
        cycles: Option<f64> => "cycles", 0 = events.cycles;
        cycles_per_instruction: Option<f64> => "cycles/instruction", 2 = events.cycles_per_instruction();
        /// Misses of the first-level instruction cache.
        l1_instruction_misses: Option<f64> => "L1i misses", 1 = events.l1_instruction_misses;
        /// Read misses of the first-level data cache.
        l1_data_misses: Option<f64> => "L1d misses", 1 = events.l1_data_misses;
        /// Misses of the second-level cache.
        l2_misses: Option<f64> => "L2 misses", 1 = events.l2_misses;
        /// Read misses of the last-level cache.
        last_level_misses: Option<f64> => "last-level", 2 = events.last_level_misses;
        /// Mispredicted branches.
        branch_misses: Option<f64> => "branches", 1 = events.branch_misses;
        /// Cycles without an instruction, for lack of fetched ones.
        stalled_cycles_frontend: Option<f64> => "stalled, frontend", 0 = events.stalled_cycles_frontend;
        /// Cycles without an instruction, for lack of data or units.
        stalled_cycles_backend: Option<f64> => "stalled, backend", 0 = events.stalled_cycles_backend;
    }
}
