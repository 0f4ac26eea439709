//! Hardware events of the servers, by server and load.

use crate::load::Report;
use crate::measure::record::record;
use crate::measure::stats::median;
use crate::system::hardware::Events;

use super::slice::Shot;

record! {
    /// Hardware events of a server under one load, per request; medians of the slices. Includes the kernel.
    pub struct EventRow {
        /// The server.
        server: String => "server", 0;
        /// Number of connections.
        connections: usize => "connections", 0;
        /// Requests offered per second, in open loop.
        rate: Option<f64> => "offered/s", 0;
        /// Executed instructions.
        instructions: Option<f64> => "instructions", 0;
        /// Cycles.
        cycles: Option<f64> => "cycles", 0;
        /// Misses of the first-level instruction cache.
        l1_instruction_misses: Option<f64> => "L1i misses", 1;
        /// Read misses of the first-level data cache.
        l1_data_misses: Option<f64> => "L1d misses", 1;
        /// Read misses of the last-level cache.
        last_level_misses: Option<f64> => "last-level", 2;
        /// Mispredicted branches.
        branch_misses: Option<f64> => "branches", 1;
    }
}

/// The events of all slices so far.
#[derive(Debug, Default)]
pub(super) struct EventLog(Vec<(EventKey, Vec<Events>)>);

/// A server, its connections and its rate.
type EventKey = (String, usize, Option<f64>);

impl EventLog {
    /// Adds a slice, if the machine counts events.
    pub(super) fn add(&mut self, server: &str, shot: Shot, report: &Report) {
        let Some(events) = report.server_events_per_request else { return };
        let key = (server.to_owned(), shot.connections, shot.rate);
        match self.0.iter_mut().find(|(other, _)| *other == key) {
            Some((_, all)) => all.push(events),
            None => self.0.push((key, vec![events])),
        }
    }

    pub(super) fn rows(&self) -> Vec<EventRow> {
        let row = |((server, connections, rate), all): &(EventKey, Vec<Events>)| {
            let events = Events::combine(all, median);
            EventRow {
                server: server.clone(),
                connections: *connections,
                rate: *rate,
                instructions: events.instructions,
                cycles: events.cycles,
                l1_instruction_misses: events.l1_instruction_misses,
                l1_data_misses: events.l1_data_misses,
                last_level_misses: events.last_level_misses,
                branch_misses: events.branch_misses,
            }
        };
        self.0.iter().map(row).collect()
    }
}
