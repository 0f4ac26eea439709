//! The metrics that a program has registered.

use super::{Counter, Family, Gauge, Times};

/// Metrics of the program, in the order of `/metrics`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Registered {
    counters: Vec<Counter>,
    gauges: Vec<Gauge>,
    times: Vec<Times>,
    counter_families: Vec<Family<Counter>>,
    gauge_families: Vec<Family<Gauge>>,
    #[cfg(feature = "metrics")]
    recorder: Option<super::Recorder>,
}

impl Registered {
    pub(crate) fn add_counter(&mut self, counter: &Counter) {
        // Counters of one name form one metric family and must be adjacent.
        let last = self.counters.iter().rposition(|other| other.name() == counter.name());
        let at = last.map_or(self.counters.len(), |last| last + 1);
        self.counters.insert(at, counter.clone());
    }

    pub(crate) fn add_gauge(&mut self, gauge: &Gauge) {
        self.gauges.push(gauge.clone());
    }

    pub(crate) fn add_times(&mut self, times: &Times) {
        self.times.push(times.clone());
    }

    pub(crate) fn add_counters(&mut self, family: &Family<Counter>) {
        self.counter_families.push(family.clone());
    }

    pub(crate) fn add_gauges(&mut self, family: &Family<Gauge>) {
        self.gauge_families.push(family.clone());
    }

    #[cfg(feature = "metrics")]
    pub(crate) fn set_recorder(&mut self, recorder: &super::Recorder) {
        self.recorder = Some(recorder.clone());
    }
}

#[cfg(feature = "admin")]
impl Registered {
    /// All counters, including the present members of families.
    pub(crate) fn counters(&self) -> Vec<Counter> {
        let members = self.counter_families.iter().flat_map(Family::members);
        self.counters.iter().cloned().chain(members).collect()
    }

    pub(crate) fn times(&self) -> &[Times] {
        &self.times
    }

    /// All gauges, including the present members of families.
    pub(crate) fn gauges(&self) -> Vec<Gauge> {
        let members = self.gauge_families.iter().flat_map(Family::members);
        self.gauges.iter().cloned().chain(members).collect()
    }

    /// The series of the recorder, as pieces of text.
    pub(crate) fn recorded(&self) -> impl Iterator<Item = String> + '_ {
        #[cfg(feature = "metrics")]
        let pieces = self.recorder.iter().flat_map(super::Recorder::pieces);
        #[cfg(not(feature = "metrics"))]
        let pieces = std::iter::empty();
        pieces
    }
}
