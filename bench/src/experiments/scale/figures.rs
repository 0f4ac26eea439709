//! The rows that slices of every server with every number of processors make.

use super::report::Row;
use crate::measure::{Disturbed, median};

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
    let row = |(arm, own): (&Arm, &Vec<Slice>)| {
        let over = |other: &dyn Fn(usize) -> Option<f64>| {
            let pairs = own.iter().enumerate().filter_map(|(n, one)| Some(one.cpu_us / other(n)?));
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
        Row::new(load, connections, arm, own, over_first, over_peer)
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
