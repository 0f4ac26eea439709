//! The report, as text and as JSON.

use std::fmt;

use serde::Serialize;

use super::shape::{Shape, Unit};
use crate::web::Machine;

/// The results of all settings.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// One per server and setting.
    pub rows: Vec<Row>,
    /// The smallest `over_mosquitto` of Phalanx.
    pub worst_over_mosquitto: Option<f64>,
    /// Messages of QoS 1 acknowledged per second with a journal, in the shape `acknowledged`.
    pub kept_acknowledged_per_s: Option<f64>,
    /// Filters subscribed per second by Phalanx, in the shape `filters`.
    pub filters_per_s: Option<f64>,
    /// Number of these filters.
    pub filters: usize,
    /// Payload size in bytes.
    pub payload: usize,
    /// Version of mosquitto; `None` if it is not installed.
    pub mosquitto: Option<String>,
    /// The machine and cores of the measurement.
    pub machine: Machine,
    /// Whether this was a quick run, whose figures are meaningless.
    pub quick: bool,
}

/// A server in one setting; medians of the slices.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Shape of the load.
    pub shape: Shape,
    /// QoS of messages and subscriptions.
    pub qos: u8,
    /// User properties of each message.
    pub properties: usize,
    /// `phalanx`, `phalanx-kept` (with `--persistence-dir`), `mosquitto` or `mosquitto-nagle`.
    pub server: &'static str,
    /// Number of publishers.
    pub publishers: usize,
    /// Number of subscribers.
    pub subscribers: usize,
    /// Maximum number of messages in flight per publisher.
    pub window: usize,
    /// Kind of messages counted.
    pub unit: Unit,
    /// Messages per second of the server's processor time.
    pub per_cpu_s: f64,
    /// Messages per second.
    pub per_s: f64,
    /// Share of a core used by the server; near 1 it was saturated.
    pub server_busy: f64,
    /// Share of a core used by the load; near 1 with `server_busy` below it, the load was the bottleneck.
    pub client_busy: f64,
    /// Median time from publish to arrival in microseconds, in the shape `light`.
    pub p50_us: Option<f64>,
    /// The 99th percentile of the same.
    pub p99_us: Option<f64>,
    /// Median of the paired slices' ratios of `per_cpu_s` of Phalanx to that of mosquitto's better variant.
    pub over_mosquitto: Option<f64>,
    /// Number of measured slices.
    pub slices: usize,
    /// Slices among these that were kept although other processes used the cores.
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
            writeln!(
                f,
                "\n  {rate:.0} messages per second acknowledged after a write to the disk"
            )?;
        }
        if let Some(rate) = self.filters_per_s {
            writeln!(f, "\n  {} filters, {rate:.0} subscribed per second", self.filters)?;
        }
        if let Some(worst) = self.worst_over_mosquitto {
            writeln!(
                f,
                "\n  messages per second of processor time over mosquitto: at least {worst:.2}"
            )?;
        }
        if self.quick {
            writeln!(f, "\n  quick run: the figures are meaningless")?;
        }
        Ok(())
    }
}
