//! What was found, for people and as JSON.

use std::fmt;

use serde::Serialize;

use super::Shown;
use crate::cachegrind::Counts;
use crate::web::Machine;

/// What `phalanx bench figure7` reports.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// One for each server and number of connections.
    pub rows: Vec<Row>,
    /// With the most connections: our instructions over the twin's.
    pub instructions_over_twin: Option<f64>,
    /// The same of simulated misses of the second level.
    pub l2_misses_over_twin: Option<f64>,
    /// The same of cycles, the kernel's included.
    pub cycles_over_twin: Option<f64>,
    /// How often the time-stamp counter counts in a microsecond.
    pub cycles_per_us: f64,
    /// Where this was measured.
    pub machine: Machine,
    /// Whether it was only to show that it runs: then the figures mean nothing.
    pub quick: bool,
}

/// What a request costs one server with one number of connections.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// `phalanx` or `twin`.
    pub server: &'static str,
    /// With a request each on its way.
    pub connections: usize,
    /// Outside of the kernel.
    pub instructions: f64,
    /// Of a simulated first-level instruction cache of 32 KiB in 8 ways.
    pub i1_misses: f64,
    /// Of a simulated second-level cache of 1 MiB in 8 ways.
    pub l2_misses: f64,
    /// Of processor time, with the kernel's.
    pub cycles: f64,
    /// Of processor time outside of the kernel, as far as the kernel tells the two apart.
    pub own_cycles: f64,
    /// The last over instructions.
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
            writeln!(f, "\n  a quick run: it shows that everything runs, and nothing else")?;
        }
        Ok(())
    }
}
