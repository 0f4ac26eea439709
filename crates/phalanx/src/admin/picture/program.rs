//! The program's own times, gauges and counters. They are above the stages, because operators need them first.

use std::fmt::Write;

use super::escape;
use super::headline::contains;
use crate::metrics::human::{count, time};
use crate::metrics::{Interval, Snapshot};

/// Renders all times with their percentiles in the interval, all gauges with their values, and all counters with their
/// rates, by name. Counters that are zero are omitted.
pub(super) fn program(out: &mut String, snapshot: &Snapshot, interval: &Interval) {
    let gauges = snapshot
        .gauges
        .iter()
        .map(|gauge| (&gauge.name, &gauge.help, gauge.label.as_ref(), count(gauge.value as f64)));
    let seconds = interval.seconds.max(1e-9);
    let counters = snapshot.counters.iter().zip(&interval.counters);
    let counters = counters.filter(|(counter, _)| counter.count > 0).map(|(counter, more)| {
        let rate = format!("{}/s", count(*more as f64 / seconds));
        (&counter.name, &counter.help, counter.label.as_ref(), rate)
    });
    let times = snapshot.times.iter().zip(&interval.times).map(|(times, more)| {
        let percentile = |percent| time(more.percentile_ns(percent));
        let value = match more.count() {
            0 => "none".to_owned(),
            _ => format!("p50 {}, p99 {}", percentile(50.0), percentile(99.0)),
        };
        (&times.name, &times.help, None, value)
    });
    let mut before = None;
    let rows = times.chain(gauges).chain(counters);
    for (name, help, label, value) in rows.filter(|(name, ..)| !contains(snapshot, name)) {
        if before != Some(name) {
            let (title, help) = (escape(name), escape(help));
            out.push_str(if before.is_none() { "<dl class=\"program\">" } else { "</dd>" });
            let _ = write!(out, "<dt title=\"{help}\">{title}</dt><dd>");
            before = Some(name);
        }
        let label = label.map_or(String::new(), |[_, value]| escape(value) + " ");
        let _ = write!(out, "<span>{label}<b>{value}</b></span> ");
    }
    if before.is_some() {
        out.push_str("</dd></dl>");
    }
}
