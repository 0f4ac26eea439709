//! The report as a table.

use std::fmt;

use super::CLIENT_BOUND;
use super::report::Report;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.file_bytes {
            Some(bytes) => format!("files of {} KiB, beyond the server's cache", bytes / 1024),
            None => "1000 files of 1 to 4 KiB, in the server's cache".to_owned(),
        };
        writeln!(
            f,
            "{what}; {} connections; goodput within {} ms; phalanx rejects above a queueing delay of {} ms",
            self.connections, self.objective_ms, self.max_queue_delay_ms
        )?;
        writeln!(f, "served: p99 from the time when a connection of the load was free")?;
        let mut server = "";
        for row in &self.rows {
            if row.server != server {
                server = row.server;
                writeln!(
                    f,
                    "\n  {server:<9}{:>9}/s{:>11}{:>9}{:>9}{:>10}{:>10}{:>10}{:>8}{:>12}{:>11}{:>8}",
                    row.capacity.round(),
                    "goodput",
                    "of cap.",
                    "of best",
                    "p50 ms",
                    "p99 ms",
                    "served",
                    "shed",
                    "unanswered",
                    "load busy",
                    "slices"
                )?;
            }
            write!(
                f,
                "  {:>20}{:>11.0}{:>9.2}{:>9.2}{:>10.1}{:>10.1}{:>10.1}{:>7.0}%{:>12}{:>10.0}%{:>8}",
                format!("{} ×", row.load),
                row.goodput,
                row.goodput_over_capacity,
                row.goodput_over_best,
                row.p50_ms,
                row.p99_ms,
                row.served_p99_ms,
                row.shed_share * 100.0,
                row.unanswered,
                row.client_busy * 100.0,
                row.slices,
            )?;
            match row.noisy_slices {
                0 => (),
                noisy => write!(f, "  {noisy} disturbed")?,
            }
            match row.client_busy > CLIENT_BOUND {
                true => writeln!(f, "  the load is the bottleneck")?,
                false => writeln!(f)?,
            }
        }
        if let (Some(admitted), Some(shed)) = (self.admitted_us, self.shed_us) {
            writeln!(
                f,
                "\n  processor time of phalanx per request {admitted:.1} µs, per rejection {shed:.1}: {:.1} %",
                shed / admitted * 100.0
            )?;
            let possible = self.possible_at_2.unwrap_or_default();
            writeln!(f, "  so at twice its capacity it can keep at most {possible:.2} of it")?;
        }
        if let Some(partial) = self.partial {
            writeln!(f, "\n  {partial}")?;
        }
        if self.quick {
            writeln!(f, "\n  quick run: the figures are meaningless")?;
        }
        Ok(())
    }
}
