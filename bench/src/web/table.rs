//! The report as a table.

use std::fmt;

use super::report::Report;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let machine = &self.machine;
        let processor = machine.processor.as_deref().unwrap_or("unknown processor");
        writeln!(f, "{processor}, {} cores, {}", machine.cores, machine.kernel)?;
        writeln!(
            f,
            "servers on core {}, load on core {}, 1000 files of 1 to 4 KiB",
            machine.server_core, machine.load_core
        )?;
        let mut connections = 0;
        for row in &self.rows {
            if row.connections != connections {
                connections = row.connections;
                let title = format!("{connections} connections");
                writeln!(
                    f,
                    "\n  {title:<18}{:>8}{:>8}{:>12}{:>10}{:>10}{:>9}",
                    "µs min", "median", "requests/s", "p50 µs", "p99 µs", "slices"
                )?;
            }
            let name = match row.driver {
                Some(driver) => format!("{} ({driver})", row.server),
                None => row.server.to_owned(),
            };
            write!(
                f,
                "  {name:<18}{:>8.2}{:>8.2}{:>12.0}{:>10.0}{:>10.0}{:>9}",
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
        writeln!(f, "\n  processor time per request, smallest to smallest; best of 64 and 256")?;
        for (name, ratio) in [
            ("phalanx / nginx", self.phalanx_over_nginx),
            ("phalanx / floor", self.phalanx_over_floor),
            ("twin / phalanx", self.twin_over_phalanx),
        ] {
            match ratio {
                Some(ratio) => writeln!(f, "  {name:<18}{ratio:>8.2}")?,
                None => writeln!(f, "  {name:<18}{:>8}", "-")?,
            }
        }
        if self.quick {
            writeln!(f, "\n  a quick run: it shows that everything runs, and nothing else")?;
        }
        Ok(())
    }
}
