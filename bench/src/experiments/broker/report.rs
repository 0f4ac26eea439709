//! The report, as text and as JSON.

use std::collections::BTreeMap;

use super::shape::{Setting, Shape, Unit};
use super::{Options, Server, Slice};
use crate::measure::{Rounds as _, median, record};
use crate::runner::{BROKERS, versions};

record! {
    /// The results of all settings.
    pub(crate) struct Report, pub(super) fn new(options: &Options) {
        /// One per server and setting.
        rows: Vec<Row> | "", 3 = Vec::new();
        /// The smallest `over_mosquitto` of Phalanx.
        worst_over_mosquitto: Option<f64> => "messages per second of processor time over mosquitto, the worst shape", 2
            = None;
        /// The smallest `over_best_peer` of Phalanx.
        worst_over_best_peer: Option<f64> => "over the best peer, the worst shape", 2 = None;
        /// QoS 1 messages acknowledged per second with a journal, in the shape `acknowledged`.
        kept_acknowledged_per_s: Option<f64> => "messages per second acknowledged after a write to the disk", 0
            = None;
        /// Filters subscribed per second by Phalanx, in the shape `filters`.
        filters_per_s: Option<f64> => "filters subscribed per second", 0 = None;
        /// Number of these filters.
        filters: usize => "filters", 0 = options.filters;
        /// Payload size in bytes.
        payload: usize = options.payload;
        /// Versions of the peers; `None` if not installed.
        peers: BTreeMap<&'static str, Option<String>> => "peer", 0 = versions(&BROKERS);
        interrupted: bool = false;
    }
}

record! {
    /// A server in one setting; medians of the slices.
    pub(crate) struct Row, fn new(setting: Setting, server: &Server, own: &[Slice], over: [Option<f64>; 2]) where {
        let Setting { shape, qos, properties } = setting;
        // At light load latency is compared, not throughput.
        let light = shape.rate().is_some();
    } {
        /// Shape of the load.
        shape: Shape => "shape", 0;
        /// QoS of messages and subscriptions.
        qos: u8 => "QoS", 0 = qos as u8;
        /// User properties of each message.
        properties: usize => "properties", 0;
        /// `phalanx`, `phalanx-kept` (with `--persistence-dir`), `mosquitto`, `mosquitto-nagle`, or another peer.
        server: String => "server", 0 = server.name.clone();
        publishers: usize = shape.publishers();
        subscribers: usize = shape.subscribers();
        /// Maximum number of messages in flight per publisher.
        window: usize = shape.window();
        /// Kind of messages counted.
        unit: Unit => "messages", 0 = shape.unit();
        /// Messages per second of the server's processor time.
        per_cpu_s: f64 => "per cpu s", 0 = own.median(|slice| slice.per_cpu_s);
        /// Messages per second.
        per_s: f64 => "per s", 0 = own.median(|slice| slice.per_s);
        /// Share of a core used by the server; at the number of its processors it was saturated.
        server_busy: f64 => "server busy", 2 = own.median(|slice| slice.server_busy);
        /// Share of a core used by the load; near 1 with a server below saturation, the load was the bottleneck.
        client_busy: f64 => "load busy", 2 = own.median(|slice| slice.client_busy);
        /// Median time from publish to arrival in microseconds, in the shape `light`.
        p50_us: Option<f64> => "p50 µs", 0 = light.then(|| own.median(|slice| slice.p50_us));
        /// The 99th percentile of the same.
        p99_us: Option<f64> => "p99 µs", 0 = light.then(|| own.median(|slice| slice.p99_us));
        /// Median of the paired slices' ratios of `per_cpu_s` of Phalanx to that of mosquitto's better variant.
        over_mosquitto: Option<f64> => "over mosquitto", 2 = over[0];
        /// The same ratio to the best of all peers.
        over_best_peer: Option<f64> => "over best", 2 = over[1];
        slices: usize = own.len();
        /// Slices among these that were kept although other processes used the cores.
        noisy_slices: usize => "disturbed", 0 = own.iter().filter(|slice| slice.noisy).count();
    }
}

impl Report {
    /// Adds a row for each server; the first one is Phalanx in memory.
    pub(super) fn add(&mut self, setting: Setting, servers: &[&Server], slices: &[Vec<Slice>]) {
        let is_compared = setting.shape.rate().is_none();
        let measured = || servers.iter().zip(slices);
        for (n, (server, own)) in measured().enumerate() {
            let over = |peer: &Vec<Slice>| median(&own.over(peer, |slice| slice.per_cpu_s));
            let least = |name: &str| {
                let peers = measured().filter(|_| n == 0 && is_compared);
                let peers = peers.filter(|(one, _)| one.is_peer && one.name.starts_with(name));
                peers.map(|(_, slices)| over(slices)).reduce(f64::min)
            };
            self.rows.push(Row::new(setting, server, own, [least("mosquitto"), least("")]));
        }
    }

    /// Computes the figures over all rows.
    pub(super) fn summarize(&mut self) {
        let kept = |row: &&Row| row.shape == Shape::Acknowledged && row.server == "phalanx-kept";
        self.kept_acknowledged_per_s = self.rows.iter().find(kept).map(|row| row.per_s);
        let least = |of: fn(&Row) -> Option<f64>| self.rows.iter().filter_map(of).reduce(f64::min);
        let worst = [least(|row| row.over_mosquitto), least(|row| row.over_best_peer)];
        [self.worst_over_mosquitto, self.worst_over_best_peer] = worst;
    }
}
