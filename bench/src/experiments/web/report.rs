//! The report: rows and ratios.

use std::collections::BTreeMap;

use super::Options;
use super::scene::Scene;
use crate::measure::{
    Disturbed, Rounds as _, Sample, median, minimum, record, slice_counts, undisturbed,
};
use crate::runner::{Slice, serves_all};

record! {
    /// The report of `phalanx-bench web`.
    pub(crate) struct Report, pub(super) fn new(
        rows: Vec<Row>,
        peers: BTreeMap<&'static str, Option<String>>,
        options: &Options,
    ) where {
        let ratios = ratios(&rows);
    } {
        /// One per scene, server and number of connections.
        rows: Vec<Row> | "processor time per request", 2;
        /// Ratio of processor times per request, the median of the pairs of slices: Phalanx on its better driver over the
        /// better tuning of nginx; small files with 64 or 256 connections, whichever is worse for Phalanx.
        phalanx_over_nginx: Option<f64> => "Phalanx over nginx", 2
            = judged(&ratios, |ratios| ratios.phalanx_over_nginx, f64::max);
        /// As above, over the floor on the same driver.
        phalanx_over_floor: Option<f64> => "Phalanx over the floor", 2
            = judged(&ratios, |ratios| ratios.phalanx_over_floor, f64::max);
        /// As above, the threaded twin over Phalanx; larger is better for Phalanx.
        twin_over_phalanx: Option<f64> => "the twin over Phalanx", 2
            = judged(&ratios, |ratios| ratios.twin_over_phalanx, f64::min);
        /// The same ratios per scene and number of connections.
        ratios: Vec<Ratios> | "ratios, medians of the pairs of slices", 0;
        /// Growth of the cost with the number of connections.
        growth: Vec<Growth> | "growth of the minima with the number of connections", 0 = growth(&rows);
        /// Planned measurements missing because of an interruption.
        missing: Vec<Missing> | "interrupted; measured slices of those planned", 0 = missing(options, &rows);
        /// Versions of the peers; `None` if not installed.
        peers: BTreeMap<&'static str, Option<String>>;
    }
}

record! {
    /// One server in one scene with a number of connections.
    pub(crate) struct Row, pub(crate) fn new(
        scene: Scene,
        server: &'static str,
        driver: Option<&'static str>,
        connections: usize,
        slices: &[Slice],
    ) where {
        let quiet = undisturbed(&slices.iter().collect::<Vec<_>>());
    } {
        scene: Scene => "scene", 0;
        connections: usize => "connections", 0;
        /// `phalanx`, `floor`, `twin`, `fibres` (the twin on fibres), or a peer: `nginx`, `nginx-nosf` (without
        /// `sendfile`), `lighttpd`, `lighttpd-sf` (with), `h2o`, `caddy`, `sws`.
        server: &'static str => "server", 0;
        /// `uring` or `poll`, for our servers.
        driver: Option<&'static str> => "driver", 0;
        /// With TLS: negotiated version and cipher suite.
        tls: Option<String> = slices.last().and_then(|slice| slice.report.tls.clone());
        /// Processor time per request, user and system, all threads: the minimum of the slices.
        cpu_us_per_request_min: f64 => "µs min", 2 = minimum(&quiet.each(|slice| slice.cpu_us()));
        /// The same: the median of the slices.
        cpu_us_per_request_median: f64 => "median", 2 = quiet.each(|slice| slice.cpu_us());
        /// Answers per second: the median of the slices.
        rps: f64 => "requests/s", 0 = slices.median(Slice::rps);
        /// Median latency in closed loop in microseconds: the median of the slices.
        p50_us: f64 => "p50 µs", 0 = slices.median(Slice::p50_us);
        /// 99th percentile of the latency: the median of the slices.
        p99_us: f64 => "p99 µs", 0 = slices.median(Slice::p99_us);
        /// Bytes received per request, including heads: the median of the slices.
        bytes_per_request: f64 = slices.median(Slice::bytes);
        /// Processor time of the load per request: the median of the slices.
        client_cpu_us: f64 = slices.median(|slice| slice.report.client_cpu_us_per_request);
        sample: Sample, flatten = slice_counts(slices);
        /// Processor time per request of each slice, and whether the slice was disturbed.
        #[serde(skip)]
        costs: Vec<Cost> = slices.iter().map(|slice| Cost(slice.cpu_us(), slice.noisy)).collect::<Vec<_>>();
        /// Requests without an answer before the end of their slice, in all slices. A server that starves more than a
        /// tenth of its connections is excluded from ratios.
        failed: u64 => "starved", 0 = slices.iter().map(Slice::unanswered).sum::<u64>();
    }
}

/// Processor time per request of a slice, and whether the slice was disturbed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost(f64, bool);

impl Disturbed for Cost {
    fn is_disturbed(&self) -> bool {
        self.1
    }
}

record! {
    /// Ratios of processor times per request in one scene with a number of connections: medians of the pairs of slices.
    /// The better variant of a server is the one with the smaller median.
    #[derive(Copy, PartialEq)]
    pub(crate) struct Ratios {
        scene: Scene => "scene", 0;
        connections: usize => "connections", 0;
        /// See [`Report::phalanx_over_nginx`].
        phalanx_over_nginx: Option<f64> => "over nginx", 2;
        /// Phalanx on its better driver over the best peer.
        phalanx_over_best_peer: Option<f64> => "over best peer", 2;
        best_peer: Option<&'static str> => "best peer", 0;
        /// See [`Report::phalanx_over_floor`].
        phalanx_over_floor: Option<f64> => "over floor", 2;
        /// See [`Report::twin_over_phalanx`].
        twin_over_phalanx: Option<f64> => "twin over", 2;
    }
}

record! {
    /// Growth of a server's processor time per request from the fewest to the most connections of a scene.
    #[derive(PartialEq)]
    pub(crate) struct Growth {
        scene: Scene => "scene", 0;
        /// As in [`Row`].
        server: &'static str => "server", 0;
        /// As in [`Row`].
        driver: Option<&'static str> => "driver", 0;
        /// The smallest and the largest number of connections.
        connections: [usize; 2] => "connections", 0;
        /// Ratio of the minimum processor times, most over fewest connections.
        cpu_ratio: f64 => "ratio", 2;
    }
}

record! {
    /// A number of connections whose measurement is incomplete.
    #[derive(PartialEq, Eq)]
    pub(crate) struct Missing {
        scene: Scene => "scene", 0;
        connections: usize => "connections", 0;
        /// Measured slices per server. With none there are no rows.
        slices: usize => "slices", 0;
        /// Planned slices per server.
        of: usize => "of", 0;
    }
}

/// Numbers of connections that the summary ratios use.
const JUDGED: [usize; 2] = [64, 256];

impl Row {
    fn serves_all(&self) -> bool {
        serves_all(self.failed, self.connections, self.sample.slices)
    }

    /// The median of the ratios to the slices of `other` in the same rounds; undisturbed ones, if there are any.
    fn over(&self, other: &Self) -> Option<f64> {
        let pairs: Vec<(&Cost, &Cost)> = self.costs.iter().zip(&other.costs).collect();
        let ratios = undisturbed(&pairs).each(|(this, other)| this.0 / other.0);
        (!ratios.is_empty()).then(|| median(&ratios))
    }

    /// Whether the row is of this server, in any tuning.
    fn is(&self, server: &str) -> bool {
        self.server == server || self.server.split('-').next() == Some(server)
    }

    fn is_peer(&self) -> bool {
        !OURS.contains(&self.server)
    }
}

/// The servers in this repository.
const OURS: [&str; 4] = ["phalanx", "floor", "twin", "fibres"];

/// The ratios for each scene and number of connections in `rows`.
fn ratios(rows: &[Row]) -> Vec<Ratios> {
    let mut settings: Vec<_> = rows.iter().map(|row| (row.scene, row.connections)).collect();
    settings.dedup();
    let of = |(scene, connections)| {
        let best = |fits: &dyn Fn(&Row) -> bool| {
            rows.iter()
                .filter(|row| (row.scene, row.connections) == (scene, connections))
                .filter(|row| row.serves_all() && fits(row))
                .min_by(|a, b| a.cpu_us_per_request_median.total_cmp(&b.cpu_us_per_request_median))
        };
        let over = |above: Option<&Row>, below: Option<&Row>| above?.over(below?);
        let phalanx = best(&|row| row.is("phalanx"));
        let driver = phalanx.and_then(|row| row.driver);
        let peer = best(&Row::is_peer);
        Ratios {
            scene,
            connections,
            phalanx_over_nginx: over(phalanx, best(&|row| row.is("nginx"))),
            phalanx_over_best_peer: over(phalanx, peer),
            best_peer: peer.map(|row| row.server),
            phalanx_over_floor: over(phalanx, best(&|row| row.is("floor") && row.driver == driver)),
            twin_over_phalanx: over(best(&|row| row.is("twin")), phalanx),
        }
    };
    settings.into_iter().map(of).collect()
}

/// The planned measurements missing in `rows`.
fn missing(options: &Options, rows: &[Row]) -> Vec<Missing> {
    let (of, _) = options.slices();
    let settings = options.scenes().iter().flat_map(|&scene| {
        options.connections(scene).into_iter().map(move |connections| (scene, connections))
    });
    let lacking = settings.map(|(scene, connections)| {
        let row = rows.iter().find(|row| (row.scene, row.connections) == (scene, connections));
        Missing { scene, connections, slices: row.map_or(0, |row| row.sample.slices), of }
    });
    lacking.filter(|missing| missing.slices < of).collect()
}

/// Growth of each server's cost, in scenes with several numbers of connections.
fn growth(rows: &[Row]) -> Vec<Growth> {
    let same = |a: &Row, b: &Row| (a.scene, a.server, a.driver) == (b.scene, b.server, b.driver);
    let first = |row: &&Row| {
        rows.iter().find(|other| same(other, row)).is_some_and(|f| std::ptr::eq(f, *row))
    };
    let of = |few: &Row| {
        let many = rows.iter().rfind(|row| same(row, few) && row.serves_all())?;
        (many.connections > few.connections).then(|| Growth {
            scene: few.scene,
            server: few.server,
            driver: few.driver,
            connections: [few.connections, many.connections],
            cpu_ratio: many.cpu_us_per_request_min / few.cpu_us_per_request_min,
        })
    };
    rows.iter().filter(first).filter_map(of).collect()
}

/// The value of `of` among the ratios that count that `worse` selects.
fn judged(
    ratios: &[Ratios],
    of: fn(&Ratios) -> Option<f64>,
    worse: fn(f64, f64) -> f64,
) -> Option<f64> {
    ratios
        .iter()
        .filter(|ratios| ratios.scene == Scene::Small && JUDGED.contains(&ratios.connections))
        .filter_map(of)
        .reduce(worse)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(
        server: &'static str,
        driver: Option<&'static str>,
        connections: usize,
        cpu: &[f64],
    ) -> Row {
        let slice = |&cpu_us: &f64| {
            let mut slice = Slice { noisy: cpu_us < 1.0, ..Slice::example() };
            slice.report.server_cpu_us_per_request = Some(cpu_us);
            slice
        };
        let slices: Vec<_> = cpu.iter().map(slice).collect();
        Row::new(Scene::Small, server, driver, connections, &slices)
    }

    #[test]
    fn disturbed_slices_count_only_without_others() {
        let mixed = row("twin", None, 64, &[0.5, 3.0, 2.0, 4.0]);
        assert_eq!((mixed.cpu_us_per_request_min, mixed.cpu_us_per_request_median), (2.0, 3.0));
        assert_eq!((mixed.sample.slices, mixed.sample.noisy_slices), (4, 1));
        assert_eq!(row("twin", None, 64, &[0.5, 0.6]).cpu_us_per_request_min, 0.5);
    }

    #[test]
    fn ratios_are_those_of_pairs() {
        // The ratio of the minima is 2, that of the medians 1.5.
        let rows = [
            row("phalanx", Some("uring"), 64, &[2.0, 3.0, 8.0]),
            row("nginx", None, 64, &[4.0, 1.0, 2.0]),
        ];
        assert_eq!(ratios(&rows)[0].phalanx_over_nginx, Some(3.0));
        // The second pair is disturbed.
        let rows =
            [row("phalanx", Some("uring"), 64, &[2.0, 3.0]), row("nginx", None, 64, &[4.0, 0.5])];
        assert_eq!(ratios(&rows)[0].phalanx_over_nginx, Some(0.5));
    }

    #[test]
    fn ratios_use_the_better_variant() {
        let rows = [
            row("phalanx", Some("uring"), 64, &[6.0]),
            row("phalanx", Some("poll"), 64, &[7.0]),
            row("floor", Some("uring"), 64, &[5.0]),
            row("floor", Some("poll"), 64, &[1.0]),
            row("twin", None, 64, &[9.0]),
            row("nginx", None, 64, &[12.0]),
            row("nginx-nosf", None, 64, &[10.0]),
            row("lighttpd", None, 64, &[8.0]),
            row("phalanx", Some("uring"), 256, &[8.0]),
            row("nginx", None, 256, &[10.0]),
            row("phalanx", Some("uring"), 1000, &[1.0]),
            row("nginx", None, 1000, &[10.0]),
        ];
        let ratios = ratios(&rows);
        assert_eq!(
            ratios[0],
            Ratios {
                scene: Scene::Small,
                connections: 64,
                phalanx_over_nginx: Some(0.6),
                phalanx_over_best_peer: Some(0.75),
                best_peer: Some("lighttpd"),
                phalanx_over_floor: Some(1.2),
                twin_over_phalanx: Some(1.5),
            }
        );
        assert_eq!(ratios[1].twin_over_phalanx, None);
        assert_eq!(judged(&ratios, |r| r.phalanx_over_nginx, f64::max), Some(0.8));
        assert_eq!(judged(&ratios, |r| r.phalanx_over_nginx, f64::min), Some(0.6));
        assert_eq!(judged(&[], |r| r.phalanx_over_nginx, f64::max), None);
        let growth = growth(&rows);
        let of = |server| growth.iter().find(|growth| growth.server == server);
        assert_eq!(
            of("nginx").map(|g| (g.connections, g.cpu_ratio)),
            Some(([64, 1000], 10.0 / 12.0))
        );
        assert_eq!(of("twin"), None);
    }
}
