//! The report: rows and ratios.

use std::collections::BTreeMap;

use serde::Serialize;

use super::options::Options;
use super::scene::Scene;
use super::slice::Figures;
use crate::stats::{Spread, median, minimum, spread};

/// The report of `phalanx-bench web`.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// One per scene, server and number of connections.
    pub rows: Vec<Row>,
    /// Ratio of minimum processor times per request: Phalanx on its better driver over the better tuning of
    /// nginx; small files with 64 or 256 connections, whichever is better for Phalanx.
    pub phalanx_over_nginx: Option<f64>,
    /// As above, over the floor on the same driver.
    pub phalanx_over_floor: Option<f64>,
    /// As above, the threaded twin over Phalanx; larger is better for Phalanx.
    pub twin_over_phalanx: Option<f64>,
    /// The same ratios per scene and number of connections.
    pub ratios: Vec<Ratios>,
    /// Growth of the cost with the number of connections.
    pub growth: Vec<Growth>,
    /// Planned measurements missing because of an interruption.
    pub missing: Vec<Missing>,
    /// The machine and cores of the measurement.
    pub machine: crate::machine::Machine,
    /// Versions of the peers; `None` if not installed.
    pub peers: BTreeMap<&'static str, Option<String>>,
    /// Whether this was a quick run, whose figures are meaningless.
    pub quick: bool,
}

/// One server in one scene with a number of connections.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The scene.
    pub scene: Scene,
    /// `phalanx`, `floor`, `twin`, or a peer: `nginx`, `nginx-nosf` (without `sendfile`), `lighttpd`,
    /// `lighttpd-sf` (with), `h2o`, `caddy`, `sws`.
    pub server: &'static str,
    /// `uring` or `poll`, for our servers.
    pub driver: Option<&'static str>,
    /// Number of connections.
    pub connections: usize,
    /// With TLS: negotiated version and cipher suite.
    pub tls: Option<String>,
    /// Processor time per request, user and system, all threads: the minimum of the slices.
    pub cpu_us_per_request_min: f64,
    /// The same: the median of the slices.
    pub cpu_us_per_request_median: f64,
    /// Answers per second: the median of the slices.
    pub rps: f64,
    /// Median latency in closed loop in microseconds: the median of the slices.
    pub p50_us: f64,
    /// 99th percentile of the latency: the median of the slices.
    pub p99_us: f64,
    /// Processor time of the load per request: the median of the slices.
    pub client_cpu_us: f64,
    /// Number of measured slices.
    pub slices: usize,
    /// Slices among these that were kept although other processes used the cores.
    pub noisy_slices: usize,
    /// Requests without an answer before the end of their slice, in all slices. A server that starves more than a
    /// tenth of its connections is excluded from ratios.
    pub failed: u64,
    /// Quartiles of the slices' median processor time.
    pub spread: Spread,
}

/// Ratios of minimum processor times per request in one scene with a number of connections.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratios {
    /// The scene.
    pub scene: Scene,
    /// Number of connections.
    pub connections: usize,
    /// See [`Report::phalanx_over_nginx`].
    pub phalanx_over_nginx: Option<f64>,
    /// Phalanx on its better driver over the best peer.
    pub phalanx_over_best_peer: Option<f64>,
    /// The best peer.
    pub best_peer: Option<&'static str>,
    /// See [`Report::phalanx_over_floor`].
    pub phalanx_over_floor: Option<f64>,
    /// See [`Report::twin_over_phalanx`].
    pub twin_over_phalanx: Option<f64>,
}

/// Growth of a server's processor time per request from the fewest to the most connections of a scene.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Growth {
    /// The scene.
    pub scene: Scene,
    /// As in [`Row`].
    pub server: &'static str,
    /// As in [`Row`].
    pub driver: Option<&'static str>,
    /// The smallest and the largest number of connections.
    pub connections: [usize; 2],
    /// Ratio of the minimum processor times, most over fewest connections.
    pub cpu_ratio: f64,
}

/// A number of connections whose measurement is incomplete.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// The scene.
    pub scene: Scene,
    /// Number of connections.
    pub connections: usize,
    /// Measured slices per server. With none there are no rows.
    pub slices: usize,
    /// Planned slices per server.
    pub of: usize,
}

/// Numbers of connections that the summary ratios use.
const JUDGED: [usize; 2] = [64, 256];

impl Row {
    /// # Panics
    /// If there are no slices.
    pub(crate) fn new(
        scene: Scene,
        server: &'static str,
        driver: Option<&'static str>,
        connections: usize,
        slices: &[Figures],
    ) -> Self {
        let all = |of: fn(&Figures) -> f64| slices.iter().map(of).collect::<Vec<f64>>();
        // Prefer undisturbed slices.
        let quiet: Vec<f64> = slices.iter().filter(|f| !f.noisy).map(|f| f.cpu_us).collect();
        let cpu = if quiet.is_empty() { all(|f| f.cpu_us) } else { quiet };
        Self {
            scene,
            server,
            driver,
            connections,
            tls: None,
            cpu_us_per_request_min: minimum(&cpu),
            cpu_us_per_request_median: median(&cpu),
            rps: median(&all(|f| f.rps)),
            p50_us: median(&all(|f| f.p50_us)),
            p99_us: median(&all(|f| f.p99_us)),
            client_cpu_us: median(&all(|f| f.client_cpu_us)),
            slices: slices.len(),
            noisy_slices: slices.iter().filter(|f| f.noisy).count(),
            failed: slices.iter().map(|f| f.failed).sum(),
            spread: spread([("cpu_us_per_request_median", cpu)]),
        }
    }
}

impl Row {
    fn serves_all(&self) -> bool {
        self.failed * 10 <= (self.connections * self.slices) as u64
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
const OURS: [&str; 3] = ["phalanx", "floor", "twin"];

/// The ratios for each scene and number of connections in `rows`.
pub(crate) fn ratios(rows: &[Row]) -> Vec<Ratios> {
    let mut settings: Vec<_> = rows.iter().map(|row| (row.scene, row.connections)).collect();
    settings.dedup();
    let of = |(scene, connections)| {
        let best = |fits: &dyn Fn(&Row) -> bool| {
            rows.iter()
                .filter(|row| (row.scene, row.connections) == (scene, connections))
                .filter(|row| row.serves_all() && fits(row))
                .min_by(|a, b| a.cpu_us_per_request_min.total_cmp(&b.cpu_us_per_request_min))
        };
        let over = |above: Option<&Row>, below: Option<&Row>| {
            Some(above?.cpu_us_per_request_min / below?.cpu_us_per_request_min)
        };
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
pub(crate) fn missing(options: &Options, rows: &[Row]) -> Vec<Missing> {
    let (of, _) = options.slices();
    let settings = options.scenes().iter().flat_map(|&scene| {
        options.connections(scene).into_iter().map(move |connections| (scene, connections))
    });
    let lacking = settings.map(|(scene, connections)| {
        let row = rows.iter().find(|row| (row.scene, row.connections) == (scene, connections));
        Missing { scene, connections, slices: row.map_or(0, |row| row.slices), of }
    });
    lacking.filter(|missing| missing.slices < of).collect()
}

/// Growth of each server's cost, in scenes with several numbers of connections.
pub(crate) fn growth(rows: &[Row]) -> Vec<Growth> {
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

/// The smallest value of `of` among the ratios that count, or with `largest` the largest.
pub(crate) fn judged(
    ratios: &[Ratios],
    of: fn(&Ratios) -> Option<f64>,
    largest: bool,
) -> Option<f64> {
    let better = if largest { f64::max } else { f64::min };
    ratios
        .iter()
        .filter(|ratios| ratios.scene == Scene::Small && JUDGED.contains(&ratios.connections))
        .filter_map(of)
        .reduce(better)
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
        let figures = |&cpu_us: &f64| Figures {
            cpu_us,
            client_cpu_us: 1.0,
            rps: 1.0,
            p50_us: 1.0,
            p99_us: 1.0,
            failed: 0,
            noisy: cpu_us < 1.0,
        };
        Row::new(
            Scene::Small,
            server,
            driver,
            connections,
            &cpu.iter().map(figures).collect::<Vec<_>>(),
        )
    }

    #[test]
    fn disturbed_slices_count_only_without_others() {
        let mixed = row("twin", None, 64, &[0.5, 3.0, 2.0, 4.0]);
        assert_eq!((mixed.cpu_us_per_request_min, mixed.cpu_us_per_request_median), (2.0, 3.0));
        assert_eq!((mixed.slices, mixed.noisy_slices), (4, 1));
        assert_eq!(row("twin", None, 64, &[0.5, 0.6]).cpu_us_per_request_min, 0.5);
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
        assert_eq!(judged(&ratios, |r| r.phalanx_over_nginx, false), Some(0.6));
        assert_eq!(judged(&ratios, |r| r.phalanx_over_nginx, true), Some(0.8));
        assert_eq!(judged(&[], |r| r.phalanx_over_nginx, true), None);
        let growth = growth(&rows);
        let of = |server| growth.iter().find(|growth| growth.server == server);
        assert_eq!(
            of("nginx").map(|g| (g.connections, g.cpu_ratio)),
            Some(([64, 1000], 10.0 / 12.0))
        );
        assert_eq!(of("twin"), None);
    }
}
