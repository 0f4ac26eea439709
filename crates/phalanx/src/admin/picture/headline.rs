//! The most important numbers of an HTTP server, from counters with conventional names.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::escape;
use crate::metrics::human::{count, percent, time};
use crate::metrics::{Interval, Snapshot};

const REQUESTS: &str = "http_requests";
const BYTES: &str = "http_response_bytes";
const OPEN: &str = "http_connections";
const ACCEPTED: &str = "http_connections_accepted";
const REFUSED: &str = "http_connections_refused";
const LOOKUPS: &str = "http_cache_lookups";
const HANDSHAKES: &str = "tls_handshakes_failed";
const LATENCY: &str = "http_request_duration_seconds";

/// Whether these numbers include a metric completely.
pub(super) fn contains(snapshot: &Snapshot, name: &str) -> bool {
    let all = [REQUESTS, BYTES, OPEN, ACCEPTED, LOOKUPS, HANDSHAKES, LATENCY];
    all.contains(&name) && is_server(snapshot)
}

fn is_server(snapshot: &Snapshot) -> bool {
    snapshot.counters.iter().any(|counter| counter.name == REQUESTS)
}

/// Renders requests by class of status, bytes, connections, cache hits, TLS errors and latency. Renders nothing for
/// other programs.
pub(super) fn headline(out: &mut String, snapshot: &Snapshot, interval: &Interval) {
    if !is_server(snapshot) {
        return;
    }
    out.push_str("<dl class=\"headline\">");
    let seconds = interval.seconds.max(1e-9);
    let rate = |n: u64| count(n as f64 / seconds) + "/s";
    // The increase of a counter, by the value of its label.
    let of = |name: &str| {
        let counters = snapshot.counters.iter().zip(&interval.counters);
        let mut parts = BTreeMap::new();
        for (counter, delta) in counters.filter(|(counter, _)| counter.name == name) {
            let label = counter.label.as_ref().map_or("", |[_, value]| value);
            *parts.entry(label).or_default() += *delta;
        }
        parts
    };
    let sum = |name| of(name).values().sum::<u64>();

    let mut classes: BTreeMap<String, u64> =
        (2..=5).map(|class| (format!("{class}xx"), 0)).collect();
    for (code, delta) in of(REQUESTS) {
        *classes.entry(code.chars().take(1).collect::<String>() + "xx").or_default() += delta;
    }
    let classes = classes.iter().filter(|(class, delta)| **delta > 0 || !class.starts_with('1'));
    let classes = classes.map(|(class, delta)| {
        let kind = if class.starts_with('5') && *delta > 0 { "bad" } else { "" };
        format!("<span class=\"{kind}\">{} <b>{}</b></span>", escape(class), rate(*delta))
    });
    tile(out, "requests", &rate(sum(REQUESTS)), &classes.collect::<Vec<_>>().join(" "));

    tile(out, "sent", &bytes(sum(BYTES) as f64 / seconds), "content");

    let open = snapshot.gauges.iter().find(|gauge| gauge.name == OPEN).map_or(0, |open| open.value);
    let detail = format!("{} new, {} refused", rate(sum(ACCEPTED)), rate(sum(REFUSED)));
    tile(out, "open connections", &count(open as f64), &detail);

    let (hits, all) = (of(LOOKUPS).get("hit").copied().unwrap_or_default(), sum(LOOKUPS));
    let share = if all == 0 { "none".into() } else { percent(hits as f64 / all as f64) };
    tile(out, "cache hits", &share, &format!("{} of {}", rate(hits), rate(all)));

    let failed = snapshot.counters.iter().find(|counter| counter.name == HANDSHAKES);
    let failed = failed.map_or(0, |failed| failed.count);
    let total = format!("{} since the start", count(failed as f64));
    tile(out, "TLS errors", &rate(sum(HANDSHAKES)), &total);

    let latency =
        snapshot.times.iter().zip(&interval.times).find(|(histogram, _)| histogram.name == LATENCY);
    let (value, detail) = match latency.map(|(_, delta)| delta).filter(|delta| delta.count() > 0) {
        Some(delta) => {
            let percentile = |percent| time(delta.percentile_ns(percent));
            (percentile(50.0), format!("median; p99 <b>{}</b>", percentile(99.0)))
        }
        None => ("none".to_owned(), "no requests".to_owned()),
    };
    tile(out, "latency", &value, &detail);
    out.push_str("</dl>");
}

/// Renders a number with its title, and a line of details in HTML.
fn tile(out: &mut String, title: &str, value: &str, detail: &str) {
    let _ =
        write!(out, "<div><dt>{title}</dt><dd>{value}</dd><dd class=\"more\">{detail}</dd></div>");
}

/// Bytes per second: `3.40 MB/s`.
fn bytes(rate: f64) -> String {
    let text = count(rate);
    let digits = text.trim_end_matches(char::is_alphabetic);
    format!("{digits} {}B/s", &text[digits.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_per_second() {
        assert_eq!([0.0, 512.0, 3.4e6].map(bytes), ["0 B/s", "512 B/s", "3.40 MB/s"]);
    }
}
