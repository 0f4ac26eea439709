//! Requests that wait half-way, as for a disk: a budget must not count those, or the cache would be idle with them.

use std::io;
use std::time::Duration;

use serde::Serialize;

use super::arms::waiting;
use super::measure::{Turns, second_level};
use super::options::Options;
use crate::stats::{median, minimum};
use crate::web::{cores, is_interrupted};

/// Milliseconds.
const WAITS: [u64; 2] = [1, 5];

/// Requests that all wait so long once, with pools.
#[derive(Clone, Debug, Serialize)]
pub struct WaitRow {
    /// How long, in milliseconds.
    pub wait_ms: u64,
    /// At a time: the most that were asked for.
    pub in_flight: usize,
    /// For a request without a budget, the least of the rounds.
    pub unbounded_ns: f64,
    /// The same with one.
    pub bounded_ns: f64,
    /// With a budget over without: the median of the rounds' pairs.
    pub bounded_over_unbounded: f64,
}

/// Measures in this process; the thread stays bound to one core for so long.
pub(super) fn run(options: &Options) -> io::Result<Vec<WaitRow>> {
    let (in_flight, rounds, fewest) = options.plan();
    let in_flight = in_flight.into_iter().max().unwrap_or(1);
    let cache = options.cache.unwrap_or_else(second_level);
    let here = cores::Cores::choose(options.runner.server_core, None)?.server;
    let each = |wait_ms: u64| {
        eprintln!("{in_flight} requests in flight that wait {wait_ms} ms");
        let wait = Duration::from_millis(wait_ms);
        // While the other was measured, all of the first have waited long enough.
        let turns = Turns { in_flight, rounds, first: in_flight, count: fewest.max(in_flight) };
        let [unbounded, bounded] = turns
            .measure([None, Some(cache)], |cache| waiting(cache, options.kib, 2 * in_flight, wait));
        let pairs = bounded.iter().zip(&unbounded).map(|(bounded, unbounded)| bounded / unbounded);
        WaitRow {
            wait_ms,
            in_flight,
            unbounded_ns: minimum(&unbounded),
            bounded_ns: minimum(&bounded),
            bounded_over_unbounded: median(&pairs.collect::<Vec<_>>()),
        }
    };
    let waits = WAITS.into_iter().take_while(|_| !is_interrupted());
    cores::bound(here, || waits.map(each).collect())
}
