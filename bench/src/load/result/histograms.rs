//! The latencies of a run, from which reports take their percentiles.

use hdrhistogram::Histogram;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Latencies of a run in nanoseconds. They resize themselves, so every value fits.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Histograms {
    /// From the intended start to the last byte.
    pub(crate) latency: Latencies,
    /// The same for successful answers.
    pub(crate) success: Latencies,
    /// The same for successful answers, from the time a connection sent the request.
    pub(crate) served: Latencies,
}

impl Histograms {
    /// Adds the latencies of another run.
    pub(crate) fn add(&mut self, other: &Self) {
        self.latency.0.add(&other.latency.0).expect("every value fits");
        self.success.0.add(&other.success.0).expect("every value fits");
        self.served.0.add(&other.served.0).expect("every value fits");
    }
}

/// Latencies in nanoseconds, with a precision of three digits. In JSON they are pairs of a value and its count.
#[derive(Clone, Debug)]
pub(crate) struct Latencies(pub(crate) Histogram<u64>);

impl Latencies {
    pub(crate) fn record(&mut self, nanoseconds: u64) {
        self.0.record(nanoseconds).expect("every value fits");
    }
}

impl Default for Latencies {
    fn default() -> Self {
        Self(Histogram::new(3).expect("a valid precision"))
    }
}

impl Serialize for Latencies {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let value = |step: hdrhistogram::iterators::IterationValue<u64>| {
            (step.value_iterated_to(), step.count_at_value())
        };
        serializer.collect_seq(self.0.iter_recorded().map(value))
    }
}

impl<'de> Deserialize<'de> for Latencies {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut latencies = Self::default();
        for (value, count) in Vec::<(u64, u64)>::deserialize(deserializer)? {
            latencies.0.record_n(value, count).map_err(serde::de::Error::custom)?;
        }
        Ok(latencies)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: impl Iterator<Item = u64>) -> Histograms {
        let mut histograms = Histograms::default();
        values.for_each(|value| histograms.latency.record(value));
        histograms
    }

    #[test]
    fn the_sum_of_two_processes_has_the_percentiles_of_one() {
        let (fast, slow) = (of((0..1_000).map(|n| 10_000 + n)), of((0..50).map(|n| 900_000 + n)));
        let text = serde_json::to_string(&slow).unwrap();
        let mut sum = fast.clone();
        sum.add(&serde_json::from_str(&text).unwrap());
        let one = of((0..1_000).map(|n| 10_000 + n).chain((0..50).map(|n| 900_000 + n)));
        for quantile in [0.5, 0.9, 0.99, 1.0] {
            let at = |histograms: &Histograms| histograms.latency.0.value_at_quantile(quantile);
            assert_eq!(at(&sum), at(&one), "{quantile}");
        }
        assert_eq!(sum.latency.0.len(), 1_050);
    }
}
