//! The metrics that a program has registered.

use std::collections::BTreeMap;

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
    kinds: BTreeMap<&'static str, Kind>,
}

/// The type of a metric, which must be the same for all metrics with the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
    Times,
}

impl Registered {
    /// # Panics
    /// If a metric with this name has another kind, or if `Times` with this name exist. Prometheus would reject the
    /// whole page.
    fn check(&mut self, name: &'static str, kind: Kind) {
        let before = self.kinds.insert(name, kind);
        let fits = before.is_none_or(|before| before == kind && kind != Kind::Times);
        assert!(fits, "a metric named `{name}` is registered already; choose another name");
    }

    pub(crate) fn add_counter(&mut self, counter: &Counter) {
        self.check(counter.name(), Kind::Counter);
        let is_same =
            |other: &Counter| (other.name(), other.label()) == (counter.name(), counter.label());
        if !self.counters.iter().any(is_same) {
            self.counters.push(counter.clone());
        }
    }

    pub(crate) fn add_gauge(&mut self, gauge: &Gauge) {
        self.check(gauge.name(), Kind::Gauge);
        let is_same =
            |other: &Gauge| (other.name(), other.label()) == (gauge.name(), gauge.label());
        if !self.gauges.iter().any(is_same) {
            self.gauges.push(gauge.clone());
        }
    }

    pub(crate) fn add_times(&mut self, times: &Times) {
        self.check(times.name(), Kind::Times);
        self.times.push(times.clone());
    }

    pub(crate) fn add_counters(&mut self, family: &Family<Counter>) {
        self.check(family.template().name(), Kind::Counter);
        self.counter_families.push(family.clone());
    }

    pub(crate) fn add_gauges(&mut self, family: &Family<Gauge>) {
        self.check(family.template().name(), Kind::Gauge);
        self.gauge_families.push(family.clone());
    }

    #[cfg(feature = "metrics")]
    pub(crate) fn set_recorder(&mut self, recorder: &super::Recorder) {
        self.recorder = Some(recorder.clone());
    }
}

#[cfg(feature = "admin")]
impl Registered {
    /// All counters, including the current members of families.
    pub(crate) fn counters(&self) -> Vec<Counter> {
        let members = self.counter_families.iter().flat_map(Family::members);
        adjacent(self.counters.iter().cloned().chain(members), Counter::name)
    }

    pub(crate) fn times(&self) -> &[Times] {
        &self.times
    }

    /// All gauges, including the current members of families.
    pub(crate) fn gauges(&self) -> Vec<Gauge> {
        let members = self.gauge_families.iter().flat_map(Family::members);
        adjacent(self.gauges.iter().cloned().chain(members), Gauge::name)
    }

    /// The series of the recorder as pieces of text, without families that other metrics of the page already have,
    /// because Prometheus rejects a page with a duplicate family.
    pub(crate) fn recorded(&self) -> impl Iterator<Item = String> + '_ {
        #[cfg(feature = "metrics")]
        let pieces = self.recorder.iter().flat_map(|recorder| {
            recorder.pieces(|name| !name.starts_with("phalanx_") && !self.kinds.contains_key(name))
        });
        #[cfg(not(feature = "metrics"))]
        let pieces = std::iter::empty();
        pieces
    }
}

/// The metrics in their order, but with metrics of the same name moved behind the first of them, because they form one
/// family on the page.
#[cfg(feature = "admin")]
fn adjacent<M>(all: impl Iterator<Item = M>, name: fn(&M) -> &'static str) -> Vec<M> {
    let mut first = BTreeMap::new();
    let numbered =
        all.enumerate().map(|(at, metric)| (*first.entry(name(&metric)).or_insert(at), metric));
    let mut numbered: Vec<(usize, M)> = numbered.collect();
    numbered.sort_by_key(|(first, _)| *first);
    numbered.into_iter().map(|(_, metric)| metric).collect()
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn a_name_has_one_kind() {
        let (counter, gauge) = (Counter::new("a_seconds", ""), Gauge::new("a_seconds", ""));
        let times = Times::new("a_seconds", "");
        let mut registered = Registered::default();
        registered.add_counter(&counter);
        registered.add_counter(&counter);
        let is_refused = |add: &dyn Fn(&mut Registered)| {
            catch_unwind(AssertUnwindSafe(|| add(&mut registered.clone()))).is_err()
        };
        #[cfg(feature = "admin")]
        assert_eq!(registered.counters().len(), 1, "Prometheus would reject the series twice");
        assert!(is_refused(&|registered| registered.add_gauge(&gauge)));
        assert!(is_refused(&|registered| registered.add_times(&times)));
        assert!(is_refused(&|registered| {
            registered.add_gauges(&Family::gauges("a_seconds", "", "label"));
        }));
        let mut registered = Registered::default();
        registered.add_times(&times);
        assert!(catch_unwind(AssertUnwindSafe(|| registered.add_times(&times))).is_err());
    }

    #[cfg(all(feature = "admin", feature = "metrics"))]
    #[test]
    fn families_of_a_recorder_do_not_repeat_those_of_the_page() {
        use ::metrics::with_local_recorder;

        let recorder = crate::metrics::Recorder::new();
        with_local_recorder(&recorder, || {
            for name in ["requests_total", "phalanx_info", "others"] {
                ::metrics::counter!(name).increment(1);
            }
        });
        let mut registered = Registered::default();
        registered.add_counter(&Counter::new("requests", ""));
        registered.set_recorder(&recorder);
        let text: String = registered.recorded().collect();
        assert!(text.contains("# TYPE others counter"), "{text}");
        assert!(!text.contains("requests") && !text.contains("phalanx_info"), "{text}");
    }

    #[cfg(feature = "admin")]
    #[test]
    fn metrics_of_one_name_are_adjacent() {
        let family = Family::counters("a", "", "label");
        family.member("one");
        let mut registered = Registered::default();
        registered.add_counters(&family);
        for value in ["x", "y"] {
            registered.add_counter(&Counter::with_label("a", "", ("label", value)));
            registered.add_counter(&Counter::new("b", ""));
        }
        let names: Vec<_> = registered.counters().iter().map(Counter::name).collect();
        assert_eq!(names, ["a", "a", "a", "b"]);
    }
}
