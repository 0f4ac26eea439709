//! Counts hardware events of the servers, by server and load.

use crate::load::Report;
use crate::measure::run::EventRow;
use crate::measure::stats::median;
use crate::system::hardware::Events;

use super::slice::Shot;

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
                l2_misses: events.l2_misses,
                last_level_misses: events.last_level_misses,
                branch_misses: events.branch_misses,
                stalled_cycles_frontend: events.stalled_cycles_frontend,
                stalled_cycles_backend: events.stalled_cycles_backend,
            }
        };
        self.0.iter().map(row).collect()
    }
}
