//! Hardware events of the servers, by server and load.

use crate::load::Report;
use crate::measure::record::record;
use crate::measure::stats::median;
use crate::system::hardware::Events;

use super::slice::Shot;

record! {
    /// Hardware events of a server under one load, per request; medians of the slices.
    pub struct EventRow {
        /// The server.
        server: String => "server", 0;
        /// Number of connections.
        connections: usize => "connections", 0;
        /// Requests offered per second, in open loop.
        rate: Option<f64> => "offered/s", 0;
        /// `all`, with the kernel, or `user`, without it.
        part: &'static str => "part", 0;
        /// Executed instructions.
        instructions: Option<f64> => "instructions", 0;
        /// Cycles.
        cycles: Option<f64> => "cycles", 0;
        /// Cycles of an instruction.
        cycles_per_instruction: Option<f64> => "cycles/instruction", 2;
        /// Misses of the first-level instruction cache.
        l1_instruction_misses: Option<f64> => "L1i misses", 1;
        /// Read misses of the first-level data cache.
        l1_data_misses: Option<f64> => "L1d misses", 1;
        /// Read misses of the last-level cache.
        last_level_misses: Option<f64> => "last-level", 2;
        /// Mispredicted branches.
        branch_misses: Option<f64> => "branches", 1;
        /// Cycles without an instruction, for lack of fetched ones.
        stalled_cycles_frontend: Option<f64> => "stalled, frontend", 0;
        /// Cycles without an instruction, for lack of data or units.
        stalled_cycles_backend: Option<f64> => "stalled, backend", 0;
    }
}

/// The events of all slices so far.
#[derive(Debug, Default)]
pub(super) struct EventLog(Vec<(EventKey, Vec<Events>)>);

/// A server, its connections, its rate, and the part that was counted.
type EventKey = (String, usize, Option<f64>, &'static str);

impl EventLog {
    /// Adds a slice, if the machine counts events.
    pub(super) fn add(&mut self, server: &str, shot: Shot, report: &Report) {
        let parts = [
            ("all", report.server_events_per_request),
            ("user", report.server_user_events_per_request),
        ];
        for (part, events) in parts {
            let Some(events) = events else { continue };
            let key = (server.to_owned(), shot.connections, shot.rate, part);
            match self.0.iter_mut().find(|(other, _)| *other == key) {
                Some((_, all)) => all.push(events),
                None => self.0.push((key, vec![events])),
            }
        }
    }

    pub(super) fn rows(&self) -> Vec<EventRow> {
        let row = |((server, connections, rate, part), all): &(EventKey, Vec<Events>)| {
            let events = Events::combine(all, median);
            EventRow {
                server: server.clone(),
                connections: *connections,
                rate: *rate,
                part,
                instructions: events.instructions,
                cycles: events.cycles,
                cycles_per_instruction: events.cycles_per_instruction(),
                l1_instruction_misses: events.l1_instruction_misses,
                l1_data_misses: events.l1_data_misses,
                last_level_misses: events.last_level_misses,
                branch_misses: events.branch_misses,
                stalled_cycles_frontend: events.stalled_cycles_frontend,
                stalled_cycles_backend: events.stalled_cycles_backend,
            }
        };
        self.0.iter().map(row).collect()
    }
}
