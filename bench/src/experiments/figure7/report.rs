//! The report, as text and as JSON.

use super::Shown;
use crate::measure::record::record;
use crate::measure::sample::Misses;
use crate::system::cachegrind::Counts;

record! {
    /// The report of `phalanx-bench figure7`.
    pub struct Report {
        /// One per server and number of clients.
        rows: Vec<Row> | "a request: instructions and misses by cachegrind, outside of the kernel; cycles of the time-stamp counter", 0;
        /// `users` who think, or `connections` in closed loop.
        load: &'static str => "clients", 0;
        /// Instructions with the most clients: Phalanx over the twin.
        instructions_over_twin: Option<f64> => "instructions over the twin, with the most clients", 2;
        /// The same ratio of simulated second-level misses.
        l2_misses_over_twin: Option<f64> => "second-level misses over the twin", 2;
        /// The same ratio of cycles, including the kernel.
        cycles_over_twin: Option<f64> => "cycles over the twin", 2;
        /// Cycles of the time-stamp counter per microsecond.
        cycles_per_us: f64 => "cycles per µs", 0;
    }
}

record! {
    /// Cost of a request on one server with a number of clients.
    pub struct Row {
        /// `phalanx` or `twin`.
        server: &'static str => "server", 0;
        /// Number of users, or of connections with one request in flight.
        clients: usize => "clients", 0;
        /// Instructions and misses.
        each: Option<Misses>, flatten;
        /// Processor time in cycles, including the kernel.
        cycles: f64 => "cycles", 0;
        /// Processor time in cycles outside the kernel, as accounted by the kernel.
        own_cycles: f64 => "own", 0;
        /// `own_cycles` per instruction.
        own_cycles_per_instruction: Option<f64> => "own/instruction", 2;
    }
}

impl Row {
    pub(super) fn new(
        server: &'static str,
        clients: usize,
        shown: &Shown,
        each: Option<Counts>,
    ) -> Self {
        Self {
            server,
            clients,
            each: each.map(Misses::from),
            cycles: shown.all,
            own_cycles: shown.own,
            own_cycles_per_instruction: each.map(|each| shown.own / each.instructions),
        }
    }
}

impl Report {
    pub(super) fn new(rows: Vec<Row>, has_users: bool, cycles_per_us: f64) -> Self {
        let over_twin = |of: fn(&Row) -> Option<f64>| {
            let most = rows.iter().map(|row| row.clients).max()?;
            let find = |name| {
                let row = rows.iter().find(|row| row.server == name && row.clients == most);
                row.and_then(of)
            };
            Some(find("phalanx")? / find("twin")?)
        };
        Self {
            load: if has_users { "users" } else { "connections" },
            instructions_over_twin: over_twin(|row| Some(row.each?.instructions)),
            l2_misses_over_twin: over_twin(|row| Some(row.each?.l2())),
            cycles_over_twin: over_twin(|row| Some(row.cycles)),
            rows,
            cycles_per_us,
        }
    }
}
