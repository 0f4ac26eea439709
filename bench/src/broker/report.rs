//! What was found, for people and as JSON.

use std::fmt;

use serde::Serialize;

use super::shape::{Shape, Unit};
use crate::web::Machine;

/// All that was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// One for each server in each setting.
    pub rows: Vec<Row>,
    /// The smallest `over_mosquitto` of ours.
    pub worst_over_mosquitto: Option<f64>,
    /// Messages of QoS 1 that the broker that keeps them has acknowledged a second, in the shape `acknowledged`.
    pub kept_acknowledged_per_s: Option<f64>,
    /// How long it took to subscribe to the filters, a second: ours.
    pub filters_per_s: Option<f64>,
    /// How many there were.
    pub filters: usize,
    /// Bytes of a payload.
    pub payload: usize,
    /// mosquitto's version; none where it is not installed.
    pub mosquitto: Option<String>,
    /// Where.
    pub machine: Machine,
    /// Whether this shows only that it runs.
    pub quick: bool,
}

/// A server in one setting: medians of the slices.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Who sends to whom.
    pub shape: Shape,
    /// Of messages and subscriptions.
    pub qos: u8,
    /// User properties of each message.
    pub properties: usize,
    /// `phalanx`, `phalanx-kept` (with `--persistence-dir`), `mosquitto` or `mosquitto-nagle`.
    pub server: &'static str,
    /// Clients that publish.
    pub publishers: usize,
    /// Clients that subscribe.
    pub subscribers: usize,
    /// Messages that each publisher has under way at most.
    pub window: usize,
    /// What is counted.
    pub unit: Unit,
    /// So many in a second of the server's processor time.
    pub per_cpu_s: f64,
    /// So many in a second.
    pub per_s: f64,
    /// The part of a core that the server used; near 1 it was busy all the time.
    pub server_busy: f64,
    /// The same of the load: where this is near 1 and the other is not, the load was the slower one.
    pub client_busy: f64,
    /// From a publish to its arrival, in microseconds; in the shape `light`.
    pub p50_us: Option<f64>,
    /// The same of the slowest hundredth.
    pub p99_us: Option<f64>,
    /// Ours: median of the paired slices' ratios of `per_cpu_s` to mosquitto's, in the better of its ways.
    pub over_mosquitto: Option<f64>,
    /// Slices measured.
    pub slices: usize,
    /// Of these, kept although others used our cores meanwhile.
    pub noisy_slices: usize,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let machine = &self.machine;
        let processor = machine.processor.as_deref().unwrap_or("unknown processor");
        writeln!(f, "{processor}, {} cores, {}", machine.cores, machine.kernel)?;
        let mosquitto = self.mosquitto.as_deref().unwrap_or("no mosquitto");
        let (server, load) = (machine.server_core, machine.load_core);
        writeln!(f, "servers on core {server}, load on core {load}; {mosquitto}")?;
        let mut setting = None;
        for row in &self.rows {
            let of = (row.shape, row.qos, row.properties);
            if setting.replace(of) != Some(of) {
                let title =
                    format!("{}, QoS {}, {} properties", row.shape, row.qos, row.properties);
                let unit = match row.unit {
                    Unit::Delivered => "delivered",
                    Unit::Acknowledged => "acknowledged",
                };
                writeln!(
                    f,
                    "\n  {title:<34}{:>12}{:>12}{:>8}{:>8}{:>9}{:>9}{:>12}",
                    format!("{unit}/cpu s"),
                    "per s",
                    "server",
                    "load",
                    "p50 µs",
                    "p99 µs",
                    "ratio"
                )?;
            }
            let number = |number: Option<f64>, digits| {
                number.map_or("-".to_owned(), |number| format!("{number:.digits$}"))
            };
            write!(
                f,
                "  {:<34}{:>12.0}{:>12.0}{:>7.0}%{:>7.0}%{:>9}{:>9}{:>12}",
                row.server,
                row.per_cpu_s,
                row.per_s,
                row.server_busy * 100.0,
                row.client_busy * 100.0,
                number(row.p50_us, 0),
                number(row.p99_us, 0),
                number(row.over_mosquitto, 2),
            )?;
            match row.noisy_slices {
                0 => writeln!(f)?,
                noisy => writeln!(f, "  {noisy} disturbed")?,
            }
        }
        if let Some(rate) = self.kept_acknowledged_per_s {
            writeln!(f, "\n  {rate:.0} messages acknowledged a second, each on the disk before")?;
        }
        if let Some(rate) = self.filters_per_s {
            writeln!(f, "\n  {} filters, {rate:.0} subscribed to a second", self.filters)?;
        }
        if let Some(worst) = self.worst_over_mosquitto {
            writeln!(f, "\n  messages per processor second over mosquitto's: {worst:.2} or more")?;
        }
        if self.quick {
            writeln!(f, "\n  a quick run: it shows that everything runs, and nothing else")?;
        }
        Ok(())
    }
}
