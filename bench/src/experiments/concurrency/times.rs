//! Time per request of all arms, by requests in flight.

use std::io;

use super::arms::{ARMS, server};
use super::measure::{Turns, second_level};
use super::options::Options;
use super::report::Row;
use crate::system::{cores, is_interrupted};

/// Measures in this process, with the thread bound to one core meanwhile.
pub(super) fn run(options: &Options) -> io::Result<Vec<Row>> {
    let (in_flight, rounds, fewest) = options.plan();
    let cache = options.cache.unwrap_or_else(second_level);
    let here = options.runner.one_core()?;
    let each = |in_flight: usize| {
        eprintln!("{in_flight} requests in flight");
        // The first part of a turn replaces the cache contents of the arm before.
        let turns = Turns { in_flight, rounds, first: fewest / 10, count: fewest.max(in_flight) };
        let times = turns.measure(ARMS, |arm| server(arm, options.kib, 2 * in_flight, cache));
        let rows = ARMS.iter().zip(times);
        rows.map(|((order, allocator), times)| Row::new(*order, *allocator, in_flight, times))
            .collect::<Vec<_>>()
    };
    let levels = in_flight.into_iter().take_while(|_| !is_interrupted());
    cores::bound(&here, || levels.flat_map(each).collect())
}
