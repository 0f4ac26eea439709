//! The report, as text and as JSON.

use crate::measure::record::record;

record! {
    /// The report of `phalanx-bench cluster`.
    pub struct Report {
        /// One or more per case.
        rows: Vec<Row> | "three brokers over NATS compared with one broker", 0;
        /// The version of NATS.
        nats: String => "NATS", 0;
        /// Payload size in bytes.
        payload: usize;
    }
}

record! {
    /// A comparison; medians of the rounds.
    pub struct Row {
        /// Messages and processes that are measured.
        case: &'static str => "case", 0;
        /// QoS of messages and subscriptions.
        qos: Option<u8> => "QoS", 0;
        /// Unit of `one` and `cluster`: processor time per message, time, or messages per second.
        unit: &'static str => "unit", 0;
        /// The single broker.
        one: Option<f64> => "one broker", 2;
        /// The cluster.
        cluster: f64 => "cluster", 2;
        /// Median of the rounds' ratios (processor time) or differences (latency); otherwise that of the cluster.
        result: f64 => "result", 3;
        /// The goal: `result` should not exceed it.
        at_most: Option<f64> => "at most", 2;
        /// The goal: `result` should not be below it.
        at_least: Option<f64> => "at least", 0;
        /// Number of measured slices.
        slices: usize => "slices", 0;
        /// Slices among these that were kept although other processes used the cores.
        noisy_slices: usize => "disturbed", 0;
    }
}

impl Row {
    /// A time that only the cluster takes.
    pub(super) fn of_time(
        case: &'static str,
        (time, unit): (f64, &'static str),
        at_most: Option<f64>,
        slices: usize,
    ) -> Self {
        Self {
            case,
            qos: None,
            unit,
            one: None,
            cluster: time,
            result: time,
            at_most,
            at_least: None,
            slices,
            noisy_slices: 0,
        }
    }
}
