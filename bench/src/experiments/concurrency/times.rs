//! Time per request, by requests in flight: of all arms, of requests that wait, and by the place where memory is checked.
//! Each function measures in this process, with the thread bound to one core.

use std::io;
use std::time::Duration;

use phalanx_core::Ingress;

use super::Options;
use super::arms::{ARMS, budgeted, server};
use super::measure::{Pair, Turns, second_level};
use super::report::Row;
use crate::measure::record;
use crate::system::{cores, is_interrupted};

/// Waits of requests, as for a disk, in milliseconds. A budget must not count them, or the cache would be left unused.
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

pub(super) fn arms(options: &Options) -> io::Result<Vec<Row>> {
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

/// Requests that wait half-way, without a budget and with one.
pub(super) fn waits(options: &Options) -> io::Result<Vec<WaitRow>> {
    let in_flight = options.plan().0.into_iter().max().unwrap_or(1);
    let loads = WAITS.map(|wait_ms| (in_flight, wait_ms));
    pairs(options, loads, [Ingress::Throttle, Ingress::Budget], WaitRow::new)
}

/// The memory check at the entry alone, and at every stage, as in the TUX paper (§4.5.2). In the last row requests wait.
pub(super) fn elections(options: &Options) -> io::Result<Vec<ElectionRow>> {
    let in_flight = options.plan().0;
    let most = in_flight.iter().copied().max();
    let waiting = most.map(|most| (most, WAITS[0]));
    let loads = in_flight.into_iter().map(|level| (level, 0)).chain(waiting);
    pairs(options, loads, [Ingress::Budget, Ingress::BudgetEveryStage], ElectionRow::new)
}

/// Compares two kinds of ingress with pools under loads, each a number of requests in flight and their wait in milliseconds.
fn pairs<R>(
    options: &Options,
    loads: impl IntoIterator<Item = (usize, u64)>,
    kinds: [Ingress; 2],
    row: impl Fn(u64, usize, &Pair) -> R,
) -> io::Result<Vec<R>> {
    let (_, rounds, fewest) = options.plan();
    let cache = options.cache.unwrap_or_else(second_level);
    let here = options.runner.one_core()?;
    let each = |(in_flight, wait_ms): (usize, u64)| {
        eprintln!("{in_flight} requests in flight that wait {wait_ms} ms: {kinds:?}");
        let wait = Duration::from_millis(wait_ms);
        // While the other server is measured, all waits of the first one end.
        let first = if wait_ms == 0 { fewest / 10 } else { in_flight };
        let turns = Turns { in_flight, rounds, first, count: fewest.max(in_flight) };
        let server = |kind| {
            // Without a budget, the runtime does not know the cache.
            let cache = if kind == Ingress::Throttle { 1 } else { cache };
            budgeted(kind, cache, options.kib, 2 * in_flight, wait)
        };
        row(wait_ms, in_flight, &turns.compare(kinds, server))
    };
    let loads = loads.into_iter().take_while(|_| !is_interrupted());
    cores::bound(&here, || loads.map(each).collect())
}
