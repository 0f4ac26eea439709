//! The report, as text and as JSON.

use super::Shown;
use crate::measure::machine::Machine;
use crate::measure::record::record;
use crate::system::cachegrind::Counts;

record! {
    /// The report of `phalanx-bench figure7`.
    pub struct Report {
        /// One per server and number of connections.
        rows: Vec<Row> | "a request: instructions and misses by cachegrind, outside of the kernel; cycles of the time-stamp counter", 0;
        /// Instructions with the most connections: Phalanx over the twin.
        instructions_over_twin: Option<f64> => "instructions over the twin, with the most connections", 2;
        /// The same ratio of simulated second-level misses.
        l2_misses_over_twin: Option<f64> => "second-level misses over the twin", 2;
        /// The same ratio of cycles, including the kernel.
        cycles_over_twin: Option<f64> => "cycles over the twin", 2;
        /// Cycles of the time-stamp counter per microsecond.
        cycles_per_us: f64 => "cycles per µs", 0;
        /// The machine and cores of the measurement.
        machine: Machine;
        /// Whether this was a quick run, whose figures are meaningless.
        quick: bool;
    }
}

record! {
    /// Cost of a request on one server with a number of connections.
    pub struct Row {
        /// `phalanx` or `twin`.
        server: &'static str => "server", 0;
        /// Number of connections, each with one request in flight.
        connections: usize => "connections", 0;
        /// Instructions outside the kernel.
        instructions: f64 => "instructions", 0;
        /// Misses of a simulated first-level instruction cache of 32 KiB in 8 ways.
        i1_misses: f64 => "I1 misses", 1;
        /// Misses of a simulated second-level cache of 1 MiB in 8 ways.
        l2_misses: f64 => "L2 misses", 1;
        /// Processor time in cycles, including the kernel.
        cycles: f64 => "cycles", 0;
        /// Processor time in cycles outside the kernel, as accounted by the kernel.
        own_cycles: f64 => "own", 0;
        /// `own_cycles` per instruction.
        own_cycles_per_instruction: f64 => "own/instruction", 2;
    }
}

impl Row {
    pub(super) fn new(
        server: &'static str,
        connections: usize,
        shown: &Shown,
        each: Counts,
    ) -> Self {
        Self {
            server,
            connections,
            instructions: each.instructions,
            i1_misses: each.i1,
            l2_misses: each.l2,
            cycles: shown.all,
            own_cycles: shown.own,
            own_cycles_per_instruction: shown.own / each.instructions,
        }
    }
}

impl Report {
    pub(super) fn new(rows: Vec<Row>, cycles_per_us: f64, machine: Machine, quick: bool) -> Self {
        let over_twin = |of: fn(&Row) -> f64| {
            let most = rows.iter().map(|row| row.connections).max()?;
            let find = |name| {
                rows.iter().find(|row| row.server == name && row.connections == most).map(of)
            };
            Some(find("phalanx")? / find("twin")?)
        };
        Self {
            instructions_over_twin: over_twin(|row| row.instructions),
            l2_misses_over_twin: over_twin(|row| row.l2_misses),
            cycles_over_twin: over_twin(|row| row.cycles),
            rows,
            cycles_per_us,
            machine,
            quick,
        }
    }
}
