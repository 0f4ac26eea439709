//! The report as a table.

use std::fmt;

use super::report::{Missing, Report};
use super::scene::Scene;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.machine)?;
        let mut setting = None;
        for row in &self.rows {
            if setting.replace((row.scene, row.connections)) != Some((row.scene, row.connections)) {
                let title = format!("{}, {} connections", row.scene, row.connections);
                writeln!(
                    f,
                    "\n  {title:<28}{:>9}{:>9}{:>12}{:>10}{:>10}{:>8}",
                    "µs min", "median", "requests/s", "p50 µs", "p99 µs", "slices"
                )?;
            }
            let name = name(row.server, row.driver);
            write!(
                f,
                "  {name:<28}{:>9.2}{:>9.2}{:>12.0}{:>10.0}{:>10.0}{:>8}",
                row.cpu_us_per_request_min,
                row.cpu_us_per_request_median,
                row.rps,
                row.p50_us,
                row.p99_us,
                row.slices,
            )?;
            if row.noisy_slices > 0 {
                write!(f, "  {} disturbed", row.noisy_slices)?;
            }
            if row.failed > 0 {
                write!(f, "  {} starved", row.failed)?;
            }
            writeln!(f)?;
        }
        writeln!(f, "\n  processor time per request, ratios of minima")?;
        writeln!(
            f,
            "\n  {:<28}{:>9}{:>9}{:>9}{:>10}  best peer",
            "phalanx over", "nginx", "floor", "peer", "twin over"
        )?;
        let number =
            |ratio: Option<f64>| ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
        for ratios in &self.ratios {
            writeln!(
                f,
                "  {:<28}{:>9}{:>9}{:>9}{:>10}  {}",
                format!("{}, {} connections", ratios.scene, ratios.connections),
                number(ratios.phalanx_over_nginx),
                number(ratios.phalanx_over_floor),
                number(ratios.phalanx_over_best_peer),
                number(ratios.twin_over_phalanx),
                ratios.best_peer.unwrap_or("-"),
            )?;
        }
        for growth in self.growth.iter().filter(|growth| growth.scene == Scene::Many) {
            let [few, many] = growth.connections;
            let name = name(growth.server, growth.driver);
            writeln!(
                f,
                "  {name:<28}{:>9.2} times as much with {many} connections as with {few}",
                growth.cpu_ratio
            )?;
        }
        if !self.missing.is_empty() {
            writeln!(f, "\n  interrupted; measured slices of those planned")?;
        }
        for Missing { scene, connections, slices, of } in &self.missing {
            let setting = format!("{scene}, {connections} connections");
            writeln!(f, "  {setting:<28}{slices:>9} of {of}")?;
        }
        if self.quick {
            writeln!(f, "\n  quick run: the figures are meaningless")?;
        }
        Ok(())
    }
}

fn name(server: &str, driver: Option<&str>) -> String {
    match driver {
        Some(driver) => format!("{server} ({driver})"),
        None => server.to_owned(),
    }
}
