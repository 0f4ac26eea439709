//! Figures of slices, and the report.

use super::Scene;
use crate::measure::{Rounds as _, by_arm, median, record};

record! {
    /// The report.
    pub(crate) struct Report {
        /// Phalanx first in each scene.
        rows: Vec<Row> | "÷: ratio of Phalanx to this server", 2;
        /// Number of measured rounds of each scene.
        rounds: usize => "rounds", 0;
    }
}

record! {
    /// One server in one scene.
    pub(crate) struct Row, fn new(
        scene: Scene,
        processors: usize,
        server: &'static str,
        own: &[Slice],
        ours: &[Slice],
    ) where {
        let over = |figure: fn(&Slice) -> f64| median(&ours.over(own, figure));
    } {
        scene: Scene => "scene", 0;
        /// Number of processors or threads.
        processors: usize => "processors", 0;
        server: &'static str => "server", 0;
        /// Microseconds of the server's processor time per request.
        cpu_us: f64 => "cpu µs", 2 = own.median(|slice| slice.cpu_us);
        /// Ratio of Phalanx to this server.
        cpu_over: f64 => "÷", 2 = over(|slice| slice.cpu_us);
        /// Microseconds of the database's processor time per request.
        database_us: Option<f64> => "database µs", 2 = middle(own.iter().map(|slice| slice.database_us));
        /// Ratio of Phalanx to this server.
        database_over: Option<f64> => "÷", 2 = middle_over(ours, own, |slice| slice.database_us);
        /// Microseconds of the server's and the database's processor time per request.
        sum_us: Option<f64> => "sum µs", 2 = middle(own.iter().map(Slice::sum_us));
        /// Ratio of Phalanx to this server.
        sum_over: Option<f64> => "÷", 2 = middle_over(ours, own, Slice::sum_us);
        /// Median latency in microseconds.
        p50_us: f64 => "p50 µs", 1 = own.median(|slice| slice.p50_us);
        /// Ratio of Phalanx to this server.
        p50_over: f64 => "÷", 2 = over(|slice| slice.p50_us);
        /// Answers per second.
        per_s: f64 => "requests/s", 0 = own.median(|slice| slice.per_s);
        /// Ratio of Phalanx to this server.
        rate_over: f64 => "÷", 2 = over(|slice| slice.per_s);
    }
}

/// Figures of one slice.
#[derive(Clone, Copy)]
pub(super) struct Slice {
    pub(super) cpu_us: f64,
    pub(super) database_us: Option<f64>,
    pub(super) p50_us: f64,
    pub(super) per_s: f64,
}

impl Slice {
    fn sum_us(&self) -> Option<f64> {
        Some(self.cpu_us + self.database_us?)
    }
}

/// The rows of one scene. The first of `names` is Phalanx.
pub(super) fn rows(
    (scene, processors): (Scene, usize),
    names: &[&'static str],
    rounds: Vec<Vec<Slice>>,
) -> Vec<Row> {
    let servers = by_arm(rounds);
    let row = |(slices, server): (&Vec<Slice>, &&'static str)| {
        Row::new(scene, processors, server, slices, &servers[0])
    };
    servers.iter().zip(names).map(row).collect()
}

/// The median of figures; `None` if one is missing.
fn middle(figures: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    figures.collect::<Option<Vec<_>>>().map(|figures| median(&figures))
}

/// The median of the ratios of a figure of the same slices; `None` if one is missing.
fn middle_over(ours: &[Slice], theirs: &[Slice], figure: fn(&Slice) -> Option<f64>) -> Option<f64> {
    middle(ours.iter().zip(theirs).map(|(ours, theirs)| Some(figure(ours)? / figure(theirs)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 3] = ["phalanx", "axum-serve", "tokio-cores"];

    #[test]
    fn ratios_are_of_phalanx_over_the_others() {
        let slice = |cpu_us, p50_us| Slice { cpu_us, database_us: None, p50_us, per_s: 1.0 };
        let round = |ours| vec![slice(ours, 10.0), slice(8.0, 20.0), slice(16.0, 5.0)];
        let rows = rows((Scene::Json, 2), &NAMES, vec![round(4.0), round(6.0), round(2.0)]);
        let over: Vec<_> =
            rows.iter().map(|row| (row.server, row.cpu_over, row.p50_over)).collect();
        assert_eq!(
            over,
            [("phalanx", 1.0, 1.0), ("axum-serve", 0.5, 0.5), ("tokio-cores", 0.25, 2.0)]
        );
        assert!(rows.iter().all(|row| row.sum_us.is_none() && row.database_over.is_none()));
    }

    #[test]
    fn the_database_is_counted_for_its_server() {
        let slice = |cpu_us, database| Slice {
            cpu_us,
            database_us: Some(database),
            p50_us: 1.0,
            per_s: 1.0 / cpu_us,
        };
        let rounds = vec![vec![slice(4.0, 2.0), slice(8.0, 16.0)]];
        let rows = rows((Scene::Insert, 1), &NAMES[..2], rounds);
        assert_eq!((rows[1].sum_us, rows[1].sum_over), (Some(24.0), Some(0.25)));
        assert_eq!((rows[1].database_over, rows[1].rate_over), (Some(0.125), 2.0));
    }
}
