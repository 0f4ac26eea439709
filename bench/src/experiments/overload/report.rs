//! The report: rows and summary figures.

use std::collections::BTreeMap;

use super::Options;
use super::{MAX_CAPACITY_SPREAD, OBJECTIVE};
use crate::load;
use crate::measure::{Disturbed, Rounds as _, Sample, median, record, slice_counts, undisturbed};
use crate::runner::Runner;

/// One slice: a server under one load.
#[derive(Clone, Debug)]
pub(crate) struct Slice {
    pub(crate) server: &'static str,
    pub(crate) load: f64,
    pub(crate) capacity: f64,
    pub(crate) report: load::Report,
    pub(crate) noisy: bool,
}

impl Slice {
    /// Sets the capacity, measured just before and after. If the two differ much, the machine has changed
    /// meanwhile, and the load was not as intended.
    pub(crate) fn between(mut self, before: f64, after: f64) -> Self {
        self.capacity = f64::midpoint(before, after);
        self.noisy |= (before - after).abs() > MAX_CAPACITY_SPREAD * before.max(after);
        self
    }

    fn per_second(&self, count: u64) -> f64 {
        count as f64 / self.report.seconds.max(1e-9)
    }

    fn goodput(&self) -> f64 {
        self.per_second(self.report.good)
    }

    fn goodput_over_capacity(&self) -> f64 {
        self.goodput() / self.capacity.max(1e-9)
    }

    /// Rejected requests.
    fn shed(&self) -> u64 {
        self.report.status.server_error
    }

    fn unanswered(&self) -> u64 {
        self.report.errors.total() + self.report.starved + self.report.backlog
    }
}

impl Disturbed for Slice {
    fn is_disturbed(&self) -> bool {
        self.noisy
    }
}

record! {
    /// One server under one load; medians of its slices.
    pub(crate) struct Row, fn new(server: &'static str, load: f64, all: &[&Slice]) where {
        // Disturbed slices count only if there are no others.
        let kept = undisturbed(all);
        let ms = |us: fn(&load::Report) -> f64| kept.each(|slice| us(&slice.report) / 1e3);
    } {
        /// `phalanx`, `twin` or `nginx`.
        server: &'static str => "server", 0;
        /// Offered load as a multiple of the server's capacity.
        load: f64 => "load", 2;
        /// Capacity in requests per second: the rate of responses to a closed loop, measured just before and after.
        capacity: f64 => "capacity/s", 0 = kept.median(|slice| slice.capacity);
        /// Successful answers within the objective, per second.
        goodput: f64 => "goodput/s", 0 = kept.median(|slice| slice.goodput());
        /// Goodput as a fraction of the capacity.
        goodput_over_capacity: f64 => "of cap.", 2 = kept.each(|slice| slice.goodput_over_capacity());
        /// This fraction relative to the server's best one at any load.
        goodput_over_best: f64 => "of best", 2 = 0.0;
        /// Median latency of successful answers from the intended start, in milliseconds.
        p50_ms: f64 => "p50 ms", 1 = median(&ms(|report| report.success_latency.p50_us));
        /// 99th percentile of the same latency.
        p99_ms: f64 => "p99 ms", 1 = ms(|report| report.success_latency.p99_us);
        /// 99th percentile from the time when a connection was free, which is the server's share.
        served_p99_ms: f64 => "served", 1 = median(&ms(|report| report.served_latency.p99_us));
        /// Share of the offered requests rejected with a 5xx.
        shed_share: f64 => "shed", 2 = kept.median(|slice| slice.shed() as f64 / slice.report.offered.max(1) as f64);
        /// Rejected requests in all slices.
        shed: u64 = all.iter().map(|slice| slice.shed()).sum::<u64>();
        /// Requests without an answer in all slices: failed, or without a free connection until five seconds after
        /// the end of the slice.
        unanswered: u64 => "unanswered", 0 = all.iter().map(|slice| slice.unanswered()).sum::<u64>();
        /// Share of the time in which the load was not idle. Near 1, the load is the bottleneck.
        client_busy: f64 => "load busy", 2 = kept.median(|slice| slice.report.client_busy);
        sample: Sample, flatten = slice_counts(all);
    }
}

record! {
    /// The report of `phalanx-bench overload`. The fields before `rows` are figures of Phalanx.
    pub(crate) struct Report, pub(crate) fn new(options: &Options, runner: &Runner, slices: &[Slice]) where {
        let rows = rows(slices);
        let ours = || rows.iter().filter(|row| row.server == "phalanx");
        let costs = costs(slices.iter().filter(|slice| slice.server == "phalanx"));
        let mut peers = runner.versions.clone();
        peers.retain(|name, _| *name == "nginx");
    } {
        /// Goodput at twice the capacity over the best at any load.
        goodput_at_2_over_best: Option<f64> => "goodput at twice the capacity over the best", 2
            = ours().find(|row| row.load == 2.0).map(|row| row.goodput_over_best);
        /// Largest 99th percentile of successful answers at any load, in milliseconds.
        p99_ms: f64 => "largest p99 in ms", 1 = ours().map(|row| row.p99_ms).fold(0.0, f64::max);
        /// Requests rejected at loads up to 0.9.
        shed_below_saturation: u64 => "rejections at loads up to 0.9", 0
            = ours().filter(|row| row.load <= 0.9).map(|row| row.shed).sum::<u64>();
        /// Requests without an answer, at any load.
        unanswered: u64 => "unanswered", 0 = ours().map(|row| row.unanswered).sum::<u64>();
        /// Processor time of an admitted request in microseconds: least squares over all slices, like `shed_us`.
        admitted_us: Option<f64> => "µs of processor time of a request", 1 = costs.map(|costs| costs.0);
        /// Processor time of a rejected request in microseconds.
        shed_us: Option<f64> => "of a rejection", 1 = costs.map(|costs| costs.1);
        /// Share of its capacity that a server with these costs can keep at twice its capacity, if it answers every
        /// request and wastes nothing.
        possible_at_2: Option<f64> => "possible goodput at twice the capacity", 2
            = costs.map(|(admitted, shed)| possible(2.0, shed / admitted));
        /// One per server and load.
        rows: Vec<Row> | "goodput of phalanx and others; served: p99 from the time when a connection of the load was free", 1;
        /// Size of each file; `None` with `--small`.
        file_bytes: Option<usize> => "bytes of a file", 0 = (!options.small).then_some(options.file_bytes);
        connections: usize => "connections", 0 = options.connections;
        /// The latency objective in milliseconds.
        objective_ms: u64 => "objective in ms", 0 = OBJECTIVE.as_millis() as u64;
        /// --max-queue-delay of Phalanx in milliseconds.
        max_queue_delay_ms: u64 => "--max-queue-delay of Phalanx in ms", 0 = options.max_queue_delay();
        /// Versions of the peers; `None` if not installed.
        peers: BTreeMap<&'static str, Option<String>>;
    }
}

/// Rows by server and load, in the order of their first measurement.
fn rows(slices: &[Slice]) -> Vec<Row> {
    let mut keys: Vec<(&'static str, f64)> = Vec::new();
    for slice in slices {
        if !keys.contains(&(slice.server, slice.load)) {
            keys.push((slice.server, slice.load));
        }
    }
    let row = |(server, load)| {
        let same = |slice: &&Slice| slice.server == server && slice.load == load;
        Row::new(server, load, &slices.iter().filter(same).collect::<Vec<_>>())
    };
    let mut rows: Vec<Row> = keys.into_iter().map(row).collect();
    let medians: Vec<_> = rows.iter().map(|row| (row.server, row.goodput_over_capacity)).collect();
    for row in &mut rows {
        // The best median, not the best single slice, which may be an outlier.
        let same = medians.iter().filter(|median| median.0 == row.server);
        let best = same.map(|median| median.1).fold(1e-9, f64::max);
        row.goodput_over_best = row.goodput_over_capacity / best;
    }
    rows
}

/// Share of the capacity left for answers under `load`, if all other requests are rejected at `refusal` times the
/// cost of an answer: `a + r = load` and `a + r × refusal = 1`.
fn possible(load: f64, refusal: f64) -> f64 {
    ((1.0 - load * refusal) / (1.0 - refusal).max(1e-9)).clamp(0.0, 1.0)
}

/// Costs of admitted and rejected requests, by a least-squares fit of `busy = admitted × a + refused × r`; `None`
/// if too few requests were rejected.
fn costs<'a>(slices: impl Iterator<Item = &'a Slice>) -> Option<(f64, f64)> {
    let (mut aa, mut ar, mut rr, mut ab, mut rb) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for slice in slices {
        let Slice { report, .. } = slice;
        let (a, r) = (slice.per_second(report.status.success), slice.per_second(slice.shed()));
        let cpu_us = report.server_cpu_us_per_request.unwrap_or(0.0);
        let busy = cpu_us * report.requests_per_second / 1e6;
        aa += a * a;
        ar += a * r;
        rr += r * r;
        ab += a * busy;
        rb += r * busy;
    }
    let determinant = aa * rr - ar * ar;
    let (a, r) = ((ab * rr - rb * ar) / determinant, (rb * aa - ab * ar) / determinant);
    (determinant > 1e-6 * aa * rr && rr > 0.0).then_some((a * 1e6, r * 1e6))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(load: f64, goodput: f64, refused: f64, noisy: bool) -> Slice {
        let mut report = crate::runner::slice::Slice::example().report;
        (report.seconds, report.requests_per_second) = (1.0, 1.0);
        report.good = goodput as u64;
        (report.status.success, report.status.server_error) = (goodput as u64, refused as u64);
        report.errors.timeout = 1;
        report.server_cpu_us_per_request = Some(goodput * 100.0 + refused * 5.0);
        Slice { server: "phalanx", load, capacity: 1000.0, report, noisy }
    }

    #[test]
    fn goodput_is_relative_to_the_capacity_around_the_slice() {
        // In the second round the machine was half as fast, in the third it changed.
        let slices = [
            slice(1.0, 800.0, 0.0, false),
            slice(2.0, 760.0, 900.0, false),
            slice(1.0, 400.0, 0.0, false).between(520.0, 480.0),
            slice(2.0, 400.0, 900.0, false).between(480.0, 520.0),
            slice(1.0, 900.0, 0.0, false),
            slice(2.0, 9.0, 0.0, false).between(1000.0, 700.0),
        ];
        let rows = rows(&slices);
        assert_eq!((rows.len(), rows[1].sample.slices, rows[1].sample.noisy_slices), (2, 3, 1));
        assert!((rows[1].goodput_over_best - 0.78 / 0.8).abs() < 1e-9, "{rows:?}");
        assert_eq!((rows[1].shed, rows[0].unanswered), (1800, 3));
        let (admitted, refused) = costs(slices.iter()).unwrap();
        assert!((admitted - 100.0).abs() < 1e-6 && (refused - 5.0).abs() < 1e-6);
        assert!(costs(slices.iter().filter(|slice| slice.shed() == 0)).is_none());
        assert_eq!((possible(2.0, 0.0), possible(2.0, 0.5), possible(2.0, 0.8)), (1.0, 0.0, 0.0));
        assert!((possible(2.0, 1.0 / 21.0) - 0.95).abs() < 1e-9);
    }
}
