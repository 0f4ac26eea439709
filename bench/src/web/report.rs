//! What the slices came to: rows, and the ratios that the project holds itself to.

use std::collections::BTreeMap;

use serde::Serialize;

use super::options::Options;
use super::scene::Scene;
use super::slice::Figures;
use crate::stats::{Spread, median, minimum, spread};

/// What `phalanx bench web` reports.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// One for each scene, server and number of connections.
    pub rows: Vec<Row>,
    /// Processor time per request, our better driver over the better of nginx's tunings, smallest to
    /// smallest; small files with 64 or 256 connections, whichever is the better for us.
    pub phalanx_over_nginx: Option<f64>,
    /// As above, our better driver over the bare loop on the same one.
    pub phalanx_over_floor: Option<f64>,
    /// As above, the threaded twin over our better driver: the larger, the better for us.
    pub twin_over_phalanx: Option<f64>,
    /// The same ratios for each scene and number of connections.
    pub ratios: Vec<Ratios>,
    /// What more connections cost.
    pub growth: Vec<Growth>,
    /// What was to be measured and was not, since somebody wanted it to end.
    pub missing: Vec<Missing>,
    /// Where this was measured.
    pub machine: super::machine::Machine,
    /// The versions of the others; none for those that are not installed.
    pub peers: BTreeMap<&'static str, Option<String>>,
    /// Whether it was only to show that it runs: then the figures mean nothing.
    pub quick: bool,
}

/// One server in one scene with one number of connections.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// What was asked for.
    pub scene: Scene,
    /// `phalanx`, `floor`, `twin`, or another's: `nginx`, `nginx-nosf` (without `sendfile`),
    /// `lighttpd`, `lighttpd-sf` (with), `h2o`, `caddy`, `sws`.
    pub server: &'static str,
    /// `uring` or `poll`, where it is ours to say.
    pub driver: Option<&'static str>,
    /// Connections at a time.
    pub connections: usize,
    /// Over TLS: version and cipher suite that were agreed on.
    pub tls: Option<String>,
    /// Processor time per request, user and system, all threads: the smallest of the slices.
    pub cpu_us_per_request_min: f64,
    /// The median of the slices.
    pub cpu_us_per_request_median: f64,
    /// Answers per second: the median.
    pub rps: f64,
    /// Median latency in microseconds, closed loop: the median.
    pub p50_us: f64,
    /// The 99th percentile: the median.
    pub p99_us: f64,
    /// The load's own processor time per request: the median.
    pub client_cpu_us: f64,
    /// Slices measured.
    pub slices: usize,
    /// Of these, kept although others used our cores meanwhile.
    pub noisy_slices: usize,
    /// Requests without an answer, or without one before their slice's end; in all slices. A server
    /// that leaves more than a tenth of its connections alone takes part in no ratio.
    pub failed: u64,
    /// Quartiles of the slices, of the median of processor time.
    pub spread: Spread,
}

/// Ratios of processor time per request, smallest to smallest, in one scene with one number of
/// connections.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratios {
    /// What was asked for.
    pub scene: Scene,
    /// Connections at a time.
    pub connections: usize,
    /// See [`Report::phalanx_over_nginx`].
    pub phalanx_over_nginx: Option<f64>,
    /// Our better driver over the best of the others' servers.
    pub phalanx_over_best_peer: Option<f64>,
    /// Which that is.
    pub best_peer: Option<&'static str>,
    /// See [`Report::phalanx_over_floor`].
    pub phalanx_over_floor: Option<f64>,
    /// See [`Report::twin_over_phalanx`].
    pub twin_over_phalanx: Option<f64>,
}

/// How a server's processor time per request grows from the fewest to the most connections of a scene.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Growth {
    /// What was asked for.
    pub scene: Scene,
    /// As in [`Row`].
    pub server: &'static str,
    /// As in [`Row`].
    pub driver: Option<&'static str>,
    /// The fewest connections, and the most.
    pub connections: [usize; 2],
    /// With the most over with the fewest, smallest to smallest.
    pub cpu_ratio: f64,
}

/// One number of connections that was not measured to the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// What was to be asked for.
    pub scene: Scene,
    /// Connections at a time.
    pub connections: usize,
    /// Slices of each server that there are. With none there are no rows.
    pub slices: usize,
    /// Slices that there were to be.
    pub of: usize,
}

/// The numbers of connections whose ratios count.
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
        // A slice that was disturbed shows nothing that an undisturbed one does not show better.
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

    /// A tuning counts as its server.
    fn is(&self, server: &str) -> bool {
        self.server == server || self.server.split('-').next() == Some(server)
    }

    fn is_peer(&self) -> bool {
        !OURS.contains(&self.server)
    }
}

/// The servers in here.
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

/// What `rows` lack of what was asked for.
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

/// How each server's cost grows with the connections, in scenes with more than one number of them.
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

/// The best of those that count, by `of`; the smallest, or with `largest` the largest.
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
    fn disturbed_slices_count_only_alone() {
        let mixed = row("twin", None, 64, &[0.5, 3.0, 2.0, 4.0]);
        assert_eq!((mixed.cpu_us_per_request_min, mixed.cpu_us_per_request_median), (2.0, 3.0));
        assert_eq!((mixed.slices, mixed.noisy_slices), (4, 1));
        assert_eq!(row("twin", None, 64, &[0.5, 0.6]).cpu_us_per_request_min, 0.5);
    }

    #[test]
    fn ratios_are_of_the_better_ones() {
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
