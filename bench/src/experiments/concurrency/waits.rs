//! Requests that wait half-way, as for a disk. A budget must not count them, or the cache would be left unused.

use std::io;
use std::time::Duration;

use super::arms::waiting;
use super::measure::{Pair, Turns, second_level};
use super::options::Options;
use crate::measure::record;
use crate::system::{cores, is_interrupted};

/// Waits in milliseconds.
const WAITS: [u64; 2] = [1, 5];

record! {
    /// Requests that each wait once, with pools.
    pub(crate) struct WaitRow, fn new(wait_ms: u64, in_flight: usize, pair: &Pair) {
        /// Length of the wait in milliseconds.
        wait_ms: u64 => "wait ms", 0;
        /// Requests in flight, the largest configured number.
        in_flight: usize => "in flight", 0;
        /// Nanoseconds per request without a budget, the minimum of the rounds.
        unbounded_ns: f64 => "no budget, ns", 0 = pair.ns[0];
        /// Nanoseconds per request with a budget, the minimum of the rounds.
        bounded_ns: f64 => "budget, ns", 0 = pair.ns[1];
        /// Time with a budget over time without: the median of the rounds' ratios.
        bounded_over_unbounded: f64 => "over", 2 = pair.ratio;
    }
}

/// Measures in this process, with the thread bound to one core meanwhile.
pub(super) fn run(options: &Options) -> io::Result<Vec<WaitRow>> {
    let (in_flight, rounds, fewest) = options.plan();
    let in_flight = in_flight.into_iter().max().unwrap_or(1);
    let cache = options.cache.unwrap_or_else(second_level);
    let here = options.runner.one_core()?;
    let each = |wait_ms: u64| {
        eprintln!("{in_flight} requests in flight that wait {wait_ms} ms");
        let wait = Duration::from_millis(wait_ms);
        // While the other server is measured, all waits of the first one end.
        let turns = Turns { in_flight, rounds, first: in_flight, count: fewest.max(in_flight) };
        let pair = turns
            .compare([None, Some(cache)], |cache| waiting(cache, options.kib, 2 * in_flight, wait));
        WaitRow::new(wait_ms, in_flight, &pair)
    };
    let waits = WAITS.into_iter().take_while(|_| !is_interrupted());
    cores::bound(&here, || waits.map(each).collect())
}
