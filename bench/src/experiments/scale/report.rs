//! The report.

use super::figures::{Arm, Slice};
use crate::measure::{Rounds as _, Sample, record, slice_counts};

record! {
    /// The results.
    pub(crate) struct Report {
        /// One per load, server and number of processors.
        rows: Vec<Row> | "servers by processors", 2;
        interrupted: bool;
    }
}

record! {
    /// A server with a number of processors under one load; medians of the slices.
    pub(crate) struct Row, pub(super) fn new(
        load: &str,
        connections: usize,
        arm: &Arm,
        own: &[Slice],
        over_first: Vec<f64>,
        over_peer: Option<f64>,
    ) {
        /// `popular` or `unpopular` files, a shape of the broker's load, or `get`.
        load: String => "load", 0 = load.to_owned();
        /// Number of connections; with the broker, of publishers and subscribers.
        connections: usize => "connections", 0;
        /// `phalanx` or `kv`, the same with `-pin` with threads bound to cores, or a peer.
        server: &'static str => "server", 0 = arm.server;
        /// Number of processors: workers of Phalanx and of its peers.
        processors: usize => "processors", 0 = arm.processors;
        /// Processor time per request or message, in microseconds.
        cpu_us: f64 => "µs each", 2 = own.each(|slice| slice.cpu_us);
        /// Median of the rounds' ratios of `cpu_us` to the same server with the fewest processors.
        over_first: Option<f64> => "over first", 2 = over_first;
        /// Median of the rounds' ratios of `cpu_us` to the best peer with as many processors; for Phalanx.
        over_best_peer: Option<f64> => "over best peer", 2 = over_peer;
        /// Requests or messages per second.
        per_s: f64 => "per s", 0 = own.each(|slice| slice.per_s);
        /// 99th percentile of the latency in closed loop, in microseconds.
        p99_us: f64 => "p99 µs", 0 = own.each(|slice| slice.p99_us);
        sample: Sample, flatten = slice_counts(own);
    }
}
