//! Counts hardware events of the servers, by server and load.

use crate::load::Report;
use crate::measure::{EventRow, median};
use crate::system::Events;

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
            EventRow::new(server.clone(), *connections, *rate, part, Events::combine(all, median))
        };
        self.0.iter().map(row).collect()
    }
}
