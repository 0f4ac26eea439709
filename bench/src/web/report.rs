//! What the slices came to: rows, and the ratios that the project holds itself to.

use std::collections::BTreeMap;

use serde::Serialize;

use super::slice::Figures;
use crate::stats::{median, minimum};

/// What `phalanx bench web` reports.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// One for each server and number of connections.
    pub rows: Vec<Row>,
    /// Processor time per request, our better driver over the better of nginx's tunings, smallest to
    /// smallest; with 64 or 256 connections, whichever is the better for us.
    pub phalanx_over_nginx: Option<f64>,
    /// As above, our better driver over the bare loop on the same one.
    pub phalanx_over_floor: Option<f64>,
    /// As above, the threaded twin over our better driver: the larger, the better for us.
    pub twin_over_phalanx: Option<f64>,
    /// The same ratios for each number of connections.
    pub ratios: Vec<Ratios>,
    /// Where this was measured.
    pub machine: super::machine::Machine,
    /// The versions of the others; none for those that are not installed.
    pub peers: BTreeMap<&'static str, Option<String>>,
    /// Whether it was only to show that it runs: then the figures mean nothing.
    pub quick: bool,
}

/// One server with one number of connections.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// `phalanx`, `floor`, `twin`, `nginx`, `nginx-nosf` (without `sendfile`) or `lighttpd`.
    pub server: &'static str,
    /// `uring` or `poll`, where it is ours to say.
    pub driver: Option<&'static str>,
    /// Connections at a time.
    pub connections: usize,
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
}

/// Ratios of processor time per request, smallest to smallest, with one number of connections.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratios {
    /// Connections at a time.
    pub connections: usize,
    /// See [`Report::phalanx_over_nginx`].
    pub phalanx_over_nginx: Option<f64>,
    /// See [`Report::phalanx_over_floor`].
    pub phalanx_over_floor: Option<f64>,
    /// See [`Report::twin_over_phalanx`].
    pub twin_over_phalanx: Option<f64>,
}

/// The numbers of connections whose ratios count.
const JUDGED: [usize; 2] = [64, 256];

impl Row {
    /// # Panics
    /// If there are no slices.
    pub(crate) fn new(
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
            server,
            driver,
            connections,
            cpu_us_per_request_min: minimum(&cpu),
            cpu_us_per_request_median: median(&cpu),
            rps: median(&all(|f| f.rps)),
            p50_us: median(&all(|f| f.p50_us)),
            p99_us: median(&all(|f| f.p99_us)),
            client_cpu_us: median(&all(|f| f.client_cpu_us)),
            slices: slices.len(),
            noisy_slices: slices.iter().filter(|f| f.noisy).count(),
            failed: slices.iter().map(|f| f.failed).sum(),
        }
    }
}

impl Row {
    fn serves_all(&self) -> bool {
        self.failed * 10 <= (self.connections * self.slices) as u64
    }
}

/// The ratios for each number of connections in `rows`.
pub(crate) fn ratios(rows: &[Row]) -> Vec<Ratios> {
    let mut numbers: Vec<usize> = rows.iter().map(|row| row.connections).collect();
    numbers.dedup();
    let of = |connections| {
        let best = |server: &str, driver: Option<&str>| {
            rows.iter()
                .filter(|row| row.connections == connections && row.serves_all())
                .filter(|row| {
                    row.server == server || row.server.strip_suffix("-nosf") == Some(server)
                })
                .filter(|row| driver.is_none() || row.driver == driver)
                .min_by(|a, b| a.cpu_us_per_request_min.total_cmp(&b.cpu_us_per_request_min))
        };
        let over = |above: Option<&Row>, below: Option<&Row>| {
            Some(above?.cpu_us_per_request_min / below?.cpu_us_per_request_min)
        };
        let phalanx = best("phalanx", None);
        let driver = phalanx.and_then(|row| row.driver);
        Ratios {
            connections,
            phalanx_over_nginx: over(phalanx, best("nginx", None)),
            phalanx_over_floor: over(
                phalanx,
                driver.and_then(|driver| best("floor", Some(driver))),
            ),
            twin_over_phalanx: over(best("twin", None), phalanx),
        }
    };
    numbers.into_iter().map(of).collect()
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
        .filter(|ratios| JUDGED.contains(&ratios.connections))
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
        Row::new(server, driver, connections, &cpu.iter().map(figures).collect::<Vec<_>>())
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
            row("phalanx", Some("uring"), 256, &[8.0]),
            row("nginx", None, 256, &[10.0]),
            row("phalanx", Some("uring"), 1000, &[1.0]),
            row("nginx", None, 1000, &[10.0]),
        ];
        let ratios = ratios(&rows);
        assert_eq!(
            ratios[0],
            Ratios {
                connections: 64,
                phalanx_over_nginx: Some(0.6),
                phalanx_over_floor: Some(1.2),
                twin_over_phalanx: Some(1.5),
            }
        );
        assert_eq!(ratios[1].twin_over_phalanx, None);
        assert_eq!(judged(&ratios, |r| r.phalanx_over_nginx, false), Some(0.6));
        assert_eq!(judged(&ratios, |r| r.phalanx_over_nginx, true), Some(0.8));
        assert_eq!(judged(&[], |r| r.phalanx_over_nginx, true), None);
    }
}
