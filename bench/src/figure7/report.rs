//! The report, as text and as JSON.

use std::fmt;

use serde::Serialize;

use super::Shown;
use crate::cachegrind::Counts;
use crate::machine::Machine;

/// The report of `phalanx-bench figure7`.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// One per server and number of connections.
    pub rows: Vec<Row>,
    /// Instructions with the most connections: Phalanx over the twin.
    pub instructions_over_twin: Option<f64>,
    /// The same ratio of simulated second-level misses.
    pub l2_misses_over_twin: Option<f64>,
    /// The same ratio of cycles, including the kernel.
    pub cycles_over_twin: Option<f64>,
    /// Cycles of the time-stamp counter per microsecond.
    pub cycles_per_us: f64,
    /// The machine and cores of the measurement.
    pub machine: Machine,
    /// Whether this was a quick run, whose figures are meaningless.
    pub quick: bool,
}

/// Cost of a request on one server with a number of connections.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// `phalanx` or `twin`.
    pub server: &'static str,
    /// Number of connections, each with one request in flight.
    pub connections: usize,
    /// Instructions outside the kernel.
    pub instructions: f64,
    /// Misses of a simulated first-level instruction cache of 32 KiB in 8 ways.
    pub i1_misses: f64,
    /// Misses of a simulated second-level cache of 1 MiB in 8 ways.
    pub l2_misses: f64,
    /// Processor time in cycles, including the kernel.
    pub cycles: f64,
    /// Processor time in cycles outside the kernel, as accounted by the kernel.
    pub own_cycles: f64,
    /// `own_cycles` per instruction.
    pub own_cycles_per_instruction: f64,
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

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "a request: instructions and misses by cachegrind, outside of the kernel; cycles of {:.0} a µs\n",
            self.cycles_per_us
        )?;
        writeln!(
            f,
            "  {:>11}  {:<9}{:>13}{:>11}{:>11}{:>9}{:>9}{:>16}",
            "connections",
            "server",
            "instructions",
            "I1 misses",
            "L2 misses",
            "cycles",
            "own",
            "own/instruction"
        )?;
        for row in &self.rows {
            writeln!(
                f,
                "  {:>11}  {:<9}{:>13.0}{:>11.1}{:>11.1}{:>9.0}{:>9.0}{:>16.2}",
                row.connections,
                row.server,
                row.instructions,
                row.i1_misses,
                row.l2_misses,
                row.cycles,
                row.own_cycles,
                row.own_cycles_per_instruction
            )?;
        }
        let ratios = [self.instructions_over_twin, self.l2_misses_over_twin, self.cycles_over_twin];
        if let [Some(instructions), Some(misses), Some(cycles)] = ratios {
            writeln!(
                f,
                "\n  Phalanx over the twin with the most connections: instructions {instructions:.2}, misses of the \
                 second level {misses:.2}, cycles {cycles:.2}"
            )?;
        }
        if self.quick {
            writeln!(f, "\n  quick run: the figures are meaningless")?;
        }
        Ok(())
    }
}
