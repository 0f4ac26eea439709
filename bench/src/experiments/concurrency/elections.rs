//! The memory check at every stage, as in the TUX paper (§4.5.2), over that at the entry alone, with pools.

use std::io;
use std::time::Duration;

use phalanx_core::Ingress;

use super::arms::budgeted;
use super::measure::{Pair, Turns, second_level};
use super::options::Options;
use crate::measure::record;
use crate::system::{cores, is_interrupted};

/// The wait in milliseconds of the requests of the last row.
const WAIT: u64 = 1;

record! {
    /// Requests in flight under both elections.
    pub(crate) struct ElectionRow, fn new(wait_ms: u64, in_flight: usize, pair: &Pair) {
        /// How long each request waits half-way, in milliseconds.
        wait_ms: u64 => "wait ms", 0;
        /// Requests in flight.
        in_flight: usize => "in flight", 0;
        /// Nanoseconds per request with the check at the entry, the minimum of the rounds.
        entry_ns: f64 => "entry, ns", 0 = pair.ns[0];
        /// Nanoseconds per request with the check at every stage, the minimum of the rounds.
        every_ns: f64 => "every stage, ns", 0 = pair.ns[1];
        /// Time with the check at every stage over that at the entry: the median of the rounds' ratios.
        every_over_entry: f64 => "over", 2 = pair.ratio;
    }
}

/// Measures in this process, with the thread bound to one core meanwhile.
pub(super) fn run(options: &Options) -> io::Result<Vec<ElectionRow>> {
    let (in_flight, rounds, fewest) = options.plan();
    let cache = options.cache.unwrap_or_else(second_level);
    let here = options.runner.one_core()?;
    let most = in_flight.iter().copied().max();
    let loads = in_flight.into_iter().map(|level| (level, 0)).chain(most.map(|most| (most, WAIT)));
    let each = |(in_flight, wait_ms): (usize, u64)| {
        eprintln!("{in_flight} requests in flight that wait {wait_ms} ms, two elections");
        let wait = Duration::from_millis(wait_ms);
        let first = if wait_ms == 0 { fewest / 10 } else { in_flight };
        let turns = Turns { in_flight, rounds, first, count: fewest.max(in_flight) };
        let elections = [Ingress::Budget, Ingress::BudgetEveryStage];
        let pair =
            turns.compare(elections, |one| budgeted(one, cache, options.kib, 2 * in_flight, wait));
        ElectionRow::new(wait_ms, in_flight, &pair)
    };
    let loads = loads.take_while(|_| !is_interrupted());
    cores::bound(&here, || loads.map(each).collect())
}
