//! The report, as text and as JSON.

use crate::error::Error;
use crate::measure::record;
use crate::system::is_interrupted;

record! {
    /// The report of `phalanx-bench cluster`.
    pub(crate) struct Report {
        /// One or more per case.
        rows: Vec<Row> | "three brokers over NATS compared with a single broker without NATS; kept: all write to disks", 0;
        /// Measurements that failed.
        failed: Vec<Failed> | "failed", 0;
        /// The version of NATS.
        nats: String => "NATS", 0;
        /// Payload size in bytes.
        payload: usize;
    }
}

record! {
    /// A comparison; medians of the rounds.
    pub(crate) struct Row {
        /// Messages and processes that are measured.
        case: String => "case", 0;
        /// QoS of messages and subscriptions.
        qos: Option<u8> => "QoS", 0;
        /// Unit of `one` and `cluster`: processor time per message, time, or messages per second.
        unit: &'static str => "unit", 0;
        /// The single broker.
        one: Option<f64> => "single", 2;
        cluster: f64 => "cluster", 2;
        /// Median of the rounds' ratios (processor time) or differences (latency); otherwise that of the cluster.
        result: f64 => "result", 3;
        /// The goal: `result` should not exceed it.
        at_most: Option<f64> => "at most", 2;
        /// The goal: `result` should not be below it.
        at_least: Option<f64> => "at least", 0;
        slices: usize => "slices", 0;
        /// Slices among these that were kept although other processes used the cores.
        noisy_slices: usize => "disturbed", 0;
    }
}

record! {
    /// A measurement that failed.
    pub(crate) struct Failed {
        case: String => "case", 0;
        /// The reason.
        why: String => "why", 0;
    }
}

impl Row {
    /// The row of a figure of the cluster, from this many slices, some of them disturbed.
    pub(super) fn alone(
        case: String,
        unit: &'static str,
        result: f64,
        (slices, noisy_slices): (usize, usize),
    ) -> Self {
        Self {
            case,
            qos: None,
            unit,
            one: None,
            cluster: result,
            result,
            at_most: None,
            at_least: None,
            slices,
            noisy_slices,
        }
    }
}

impl Failed {
    /// Adds an error to those that do not end the run. Returns the result of a measurement without one.
    ///
    /// # Errors
    /// On a signal.
    pub(super) fn keep<T>(
        all: &mut Vec<Self>,
        case: String,
        measured: Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        match measured {
            Ok(measured) => Ok(Some(measured)),
            // A signal also interrupts system calls.
            Err(Error::Interrupted) => Err(Error::Interrupted),
            Err(_) if is_interrupted() => Err(Error::Interrupted),
            Err(error) => {
                eprintln!("{case}: {error}");
                all.push(Self { case, why: error.to_string() });
                Ok(None)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_does_not_end_the_run() {
        let mut all = Vec::new();
        let mut keep = |measured| Failed::keep(&mut all, "a case".to_owned(), measured);
        assert_eq!(keep(Ok(7)).unwrap(), Some(7));
        assert_eq!(keep(Err(Error::Process("why".into()))).unwrap(), None);
        assert!(matches!(keep(Err(Error::Interrupted)), Err(Error::Interrupted)));
        let [Failed { case, why }] = &all[..] else { panic!("{all:?}") };
        assert_eq!((&**case, &**why), ("a case", "a measuring process failed: why"));
    }
}
