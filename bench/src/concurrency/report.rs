//! The report and its summary figures.

use std::fmt;

use serde::Serialize;

use super::arms::{ARMS, Allocator, Order};
use super::misses::{MissRow, WebMissRow};
use super::options::Options;
use super::request::BYTES;
use super::servers::WebRow;
use super::waits::WaitRow;
use crate::interrupt::is_interrupted;
use crate::stats::{median, minimum};

/// One arm with a number of requests in flight.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The order in which requests advance.
    pub order: Order,
    /// The allocator of the requests' objects.
    pub allocator: Allocator,
    /// Requests in flight.
    pub in_flight: usize,
    /// Nanoseconds per request, the minimum of the rounds.
    pub ns: f64,
    #[serde(skip)]
    times: Vec<f64>,
}

impl Row {
    pub(super) fn new(
        order: Order,
        allocator: Allocator,
        in_flight: usize,
        times: Vec<f64>,
    ) -> Self {
        Self { order, allocator, in_flight, ns: minimum(&times), times }
    }
}

/// The report of `phalanx-bench concurrency`.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Time per request with the most in flight: events with the general allocator over cohorts with a budget and
    /// pools. Median of the rounds' ratios.
    pub unbounded_general_over_bounded_pools: Option<f64>,
    /// Throughput with a budget and pools: the most in flight over the fewest.
    pub bounded_most_over_fewest: Option<f64>,
    /// Misses with the most in flight: a budget and pools over events with the general allocator.
    pub l2_misses_bounded_over_unbounded: Option<f64>,
    /// Time of requests that wait for I/O: with a budget over without, the worse of the waits.
    pub waiting_bounded_over_unbounded: Option<f64>,
    /// Processor time per request of the web server: the most connections over the fewest.
    pub web_most_over_fewest: Option<f64>,
    /// Measured times.
    pub rows: Vec<Row>,
    /// Times of requests that wait for I/O.
    pub waits: Vec<WaitRow>,
    /// Simulated misses; empty without valgrind.
    pub misses: Vec<MissRow>,
    /// The real servers.
    pub web: Vec<WebRow>,
    /// Simulated misses of the web server.
    pub web_misses: Vec<WebMissRow>,
    /// Bytes of all objects of a request.
    pub bytes_per_request: usize,
    /// KiB of code in each stage.
    pub kib_per_stage: u64,
    /// Number of rounds.
    pub rounds: usize,
    /// Whether the run was interrupted; later results are missing.
    pub interrupted: bool,
    /// Whether this was a quick run, whose figures are meaningless.
    pub quick: bool,
}

const BEST: (Order, Allocator) = (Order::Bounded, Allocator::Pools);
const WORST: (Order, Allocator) = (Order::Events, Allocator::General);

impl Report {
    pub(super) fn new(
        options: &Options,
        rows: Vec<Row>,
        waits: Vec<WaitRow>,
        misses: Vec<MissRow>,
        web: Vec<WebRow>,
        web_misses: Vec<WebMissRow>,
    ) -> Self {
        let (in_flight, rounds, _) = options.plan();
        let most = in_flight.iter().copied().max().unwrap_or(0);
        let fewest = in_flight.iter().copied().min().unwrap_or(0);
        let row = |arm: (Order, Allocator), in_flight: usize| {
            rows.iter()
                .find(|row| (row.order, row.allocator, row.in_flight) == (arm.0, arm.1, in_flight))
        };
        let missed = |arm: (Order, Allocator)| {
            let of =
                |row: &&MissRow| (row.order, row.allocator, row.in_flight) == (arm.0, arm.1, most);
            misses.iter().find(of).map(|row| row.l2_misses_per_request)
        };
        let ours = |connections: usize| {
            let of = |row: &&WebRow| row.server == "phalanx" && row.connections == connections;
            web.iter().find(of).map(|row| row.cpu_us_per_request)
        };
        let paired = |worst: &Row, best: &Row| {
            let pairs = worst.times.iter().zip(&best.times);
            median(&pairs.map(|(worst, best)| worst / best).collect::<Vec<_>>())
        };
        Self {
            unbounded_general_over_bounded_pools: row(WORST, most)
                .zip(row(BEST, most))
                .map(|(worst, best)| paired(worst, best)),
            bounded_most_over_fewest: row(BEST, fewest)
                .zip(row(BEST, most))
                .map(|(fewest, most)| fewest.ns / most.ns),
            l2_misses_bounded_over_unbounded: missed(BEST)
                .zip(missed(WORST))
                .map(|(best, worst)| best / worst),
            waiting_bounded_over_unbounded: waits
                .iter()
                .map(|row| row.bounded_over_unbounded)
                .reduce(f64::max),
            web_most_over_fewest: ours(most).zip(ours(fewest)).map(|(most, fewest)| most / fewest),
            rows,
            waits,
            misses,
            web,
            web_misses,
            bytes_per_request: BYTES,
            kib_per_stage: options.kib,
            rounds,
            interrupted: is_interrupted(),
            quick: options.quick,
        }
    }
}

/// The name of an arm in tables.
fn name((order, allocator): (Order, Allocator)) -> String {
    let order = match order {
        Order::Events => "events",
        Order::Unbounded => "cohorts",
        Order::Bounded => "cohorts, budget",
    };
    let allocator = match allocator {
        Allocator::General => "general",
        Allocator::Pools => "pools",
    };
    format!("{order}, {allocator}")
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut levels: Vec<usize> = self.rows.iter().map(|row| row.in_flight).collect();
        levels.dedup();
        writeln!(
            f,
            "ns per request ({} bytes in seven objects, 8 x {} KiB of code), by requests in flight\n",
            self.bytes_per_request, self.kib_per_stage
        )?;
        write!(f, "{:<28}", "")?;
        levels.iter().try_for_each(|level| write!(f, "{level:>10}"))?;
        writeln!(f)?;
        for arm in ARMS {
            write!(f, "{:<28}", name(arm))?;
            let of = |row: &&Row| (row.order, row.allocator) == arm;
            self.rows.iter().filter(of).try_for_each(|row| write!(f, "{:>10.0}", row.ns))?;
            writeln!(f)?;
        }
        for row in &self.waits {
            let WaitRow { wait_ms, unbounded_ns, bounded_ns, bounded_over_unbounded, .. } = row;
            writeln!(
                f,
                "waiting {wait_ms} ms, pools: {unbounded_ns:.0} without a budget, {bounded_ns:.0} with one: \
                 {bounded_over_unbounded:.2}"
            )?;
        }
        if !self.misses.is_empty() {
            writeln!(f, "\nsimulated second-level misses (1 MiB) per request\n")?;
            for row in &self.misses {
                let arm =
                    format!("{} in flight, {}", row.in_flight, name((row.order, row.allocator)));
                writeln!(f, "{arm:<48}{:>10.1}", row.l2_misses_per_request)?;
            }
        }
        if !self.web.is_empty() {
            writeln!(f, "\nservers: processor time per request\n")?;
            for row in &self.web {
                let server = format!("{}, {} connections", row.server, row.connections);
                writeln!(f, "{server:<48}{:>10.2} µs", row.cpu_us_per_request)?;
            }
        }
        for row in &self.web_misses {
            let WebMissRow { connections, l2_misses_per_request: misses } = row;
            writeln!(
                f,
                "phalanx web, {connections} connections: {misses:.1} simulated misses per request"
            )?;
        }
        writeln!(f)?;
        let figures = [
            ("events, general over budget, pools", self.unbounded_general_over_bounded_pools),
            ("budget, pools: throughput, most over fewest", self.bounded_most_over_fewest),
            (
                "misses, budget and pools over events, general",
                self.l2_misses_bounded_over_unbounded,
            ),
            ("waiting for I/O: time, budget over none", self.waiting_bounded_over_unbounded),
            ("phalanx web: time, most over fewest", self.web_most_over_fewest),
        ];
        for (name, figure) in figures {
            if let Some(figure) = figure {
                writeln!(f, "{name:<48}{figure:>10.2}")?;
            }
        }
        if self.interrupted {
            writeln!(f, "\ninterrupted: missing figures were not measured")?;
        }
        Ok(())
    }
}
