//! The report.

use crate::measure::{Disturbed, Rounds as _, Sample, median, record, slice_counts};

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

/// A server under measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arm {
    pub(super) server: &'static str,
    pub(super) processors: usize,
}

/// Figures of one slice.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slice {
    /// Processor time of the server per request or message, in microseconds.
    pub(super) cpu_us: f64,
    /// Requests or messages per second.
    pub(super) per_s: f64,
    pub(super) p99_us: f64,
    pub(super) noisy: bool,
}

impl Disturbed for Slice {
    fn is_disturbed(&self) -> bool {
        self.noisy
    }
}

/// The rows of one load.
pub(super) fn rows(
    load: &str,
    connections: usize,
    arms: &[Arm],
    slices: &[Vec<Slice>],
) -> Vec<Row> {
    let ours = |arm: &Arm| arm.server.starts_with("phalanx") || arm.server.starts_with("kv");
    let row = |(arm, row_slices): (&Arm, &Vec<Slice>)| {
        let over = |other: &dyn Fn(usize) -> Option<f64>| {
            let pairs =
                row_slices.iter().enumerate().filter_map(|(n, one)| Some(one.cpu_us / other(n)?));
            pairs.collect::<Vec<_>>()
        };
        let same = |fits: &dyn Fn(&Arm) -> bool, round: usize| {
            let fitting = arms.iter().zip(slices).filter(|(arm, _)| fits(arm));
            fitting.map(|(_, slices)| slices[round].cpu_us).reduce(f64::min)
        };
        let first =
            |other: &Arm| other.server == arm.server && other.processors == arms[0].processors;
        let peer = |other: &Arm| other.processors == arm.processors && !ours(other);
        let over_first = over(&|round| same(&first, round));
        let over_peer = over(&|round| same(&peer, round));
        let over_peer = (ours(arm) && !over_peer.is_empty()).then(|| median(&over_peer));
        Row::new(load, connections, arm, row_slices, over_first, over_peer)
    };
    arms.iter().zip(slices).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_paired() {
        let arm = |server, processors| Arm { server, processors };
        let arms = [arm("phalanx", 1), arm("phalanx", 2), arm("nginx", 2), arm("lighttpd", 2)];
        let cost = [[4.0, 8.0], [6.0, 24.0], [8.0, 16.0], [10.0, 12.0]];
        let slice = |cpu_us| Slice { cpu_us, per_s: 1.0, p99_us: 1.0, noisy: false };
        let slices = cost.map(|rounds| rounds.map(slice).to_vec());
        let rows = rows("popular", 64, &arms, &slices);
        let two = &rows[1];
        assert_eq!((two.cpu_us, two.over_first), (15.0, Some(2.25)));
        assert_eq!(two.over_best_peer, Some(f64::midpoint(6.0 / 8.0, 24.0 / 12.0)));
        assert_eq!((rows[2].over_best_peer, rows[0].over_best_peer), (None, None));
    }
}
