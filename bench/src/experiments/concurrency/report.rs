//! The report and its summary figures.

use super::Options;
use super::arms::{Allocator, Order};
use super::misses::MissRow;
use super::request::BYTES;
use super::servers::{MODIFIED, WebMissRow, WebRow};
use super::times::ElectionRow;
use super::times::WaitRow;
use crate::measure::{Rounds as _, median, minimum, record};
use crate::system::is_interrupted;

record! {
    /// One arm with a number of requests in flight.
    pub(crate) struct Row, pub(super) fn new(
        order: Order,
        allocator: Allocator,
        in_flight: usize,
        times: Vec<f64>,
    ) {
        /// The order in which requests advance.
        order: Order => "order", 0;
        /// The allocator of the requests' objects.
        allocator: Allocator => "memory", 0;
        /// Requests in flight.
        in_flight: usize => "in flight", 0;
        /// Nanoseconds per request, the minimum of the rounds.
        ns: f64 => "ns", 0 = minimum(&times);
        /// Nanoseconds per request in each round.
        #[serde(skip)]
        times: Vec<f64>;
    }
}

record! {
    /// The report of `phalanx-bench concurrency`.
    pub(crate) struct Report, pub(super) fn new(
        options: &Options,
        rows: Vec<Row>,
        waits: Vec<WaitRow>,
        elections: Vec<ElectionRow>,
        misses: Vec<MissRow>,
        web: Vec<WebRow>,
        web_misses: Vec<WebMissRow>,
    ) where {
        let (in_flight, rounds, _) = options.plan();
        let most = in_flight.iter().copied().max().unwrap_or(0);
        let of = |arm: (Order, Allocator)| {
            rows.iter().filter(move |row| (row.order, row.allocator) == arm)
        };
        let last = |arm| of(arm).find(|row| row.in_flight == most);
        let missed = |arm: (Order, Allocator)| {
            let of =
                |row: &&MissRow| (row.order, row.allocator, row.in_flight) == (arm.0, arm.1, most);
            misses.iter().find(of).map(|row| row.each.l2())
        };
        let paired = |worst: &Row, best: &Row| median(&worst.times.over(&best.times, |ns| *ns));
        let over_bounded = |arm| Some(paired(last(arm)?, last(BOUNDED)?));
        let least = of(BOUNDED).map(|row| row.ns).reduce(f64::min);
        let ours = || web.iter().filter(|row| row.server == "phalanx");
        let last_web = ours().find(|row| row.connections == most);
        let least_web = ours().map(|row| row.cpu_us_per_request).reduce(f64::min);
    } {
        /// Time per request with the most in flight: an event server in list order with the general allocator over
        /// cohorts with a budget and pools. Median of the rounds' ratios.
        list_general_over_bounded_pools: Option<f64> => "list, general over budget, pools", 2 = over_bounded(LIST);
        /// The same with an event server in random order.
        events_general_over_bounded_pools: Option<f64> => "events, general over budget, pools", 2
            = over_bounded(EVENTS);
        /// Throughput with a budget and pools: with the most in flight over that with the best number.
        bounded_most_over_best: Option<f64> => "budget, pools: throughput, most over best", 2
            = least.zip(last(BOUNDED)).map(|(least, most)| least / most.ns);
        /// Second-level misses with the most in flight: a budget and pools over a list with the general allocator.
        l2_misses_bounded_over_list: Option<f64> => "L2 misses, budget and pools over list, general", 2
            = missed(BOUNDED).zip(missed(LIST)).map(|(bounded, list)| bounded / list);
        /// Time of requests that wait for I/O: with a budget over without, the worse of the waits.
        waiting_bounded_over_unbounded: Option<f64> => "waiting for I/O: time, budget over none", 2
            = waits.iter().map(|row| row.bounded_over_unbounded).reduce(f64::max);
        /// Processor time per request of the web server: with the most connections over the least of all.
        web_most_over_least: Option<f64> => "phalanx web: time, most over least", 2
            = last_web.zip(least_web).map(|(most, least)| most.cpu_us_per_request / least);
        /// The web server with the most connections: second-level misses of a budget and the pool over all connections in
        /// a cohort and the general allocator.
        web_l2_budget_over_all: Option<f64> => "phalanx web: L2 misses, budget and pool over all, general", 2
            = web_misses.iter().rfind(|row| row.server == MODIFIED).and_then(|row| row.l2_over_unmodified);
        /// Measured times.
        rows: Vec<Row> | "ns per request", 0;
        /// Times of requests that wait for I/O.
        waits: Vec<WaitRow> | "requests that wait for I/O, with pools", 0;
        /// Times with memory checked at every stage and at the entry.
        elections: Vec<ElectionRow> | "memory checked at every stage over at the entry, with pools", 0;
        /// Simulated misses; empty without valgrind.
        misses: Vec<MissRow> | "simulated misses per request", 0;
        /// The real servers.
        web: Vec<WebRow> | "servers: processor time per request", 0;
        /// Simulated misses of the real servers.
        web_misses: Vec<WebMissRow> | "servers: simulated misses per request, without the kernel", 0;
        bytes_per_request: usize => "bytes of a request in seven objects", 0 = BYTES;
        kib_per_stage: u64 => "KiB of code in each of 8 stages", 0 = options.kib;
        rounds: usize;
        /// Whether the run was interrupted; later results are missing.
        interrupted: bool = is_interrupted();
        /// Whether this was a quick run, whose figures are meaningless.
        quick: bool = options.quick;
    }
}

const BOUNDED: (Order, Allocator) = (Order::Bounded, Allocator::Pools);
const EVENTS: (Order, Allocator) = (Order::Events, Allocator::General);
const LIST: (Order, Allocator) = (Order::List, Allocator::General);
