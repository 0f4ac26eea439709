//! A comparison of two settings under the same traffic, in the order first, second, first.

use super::indicators::Indicators;
use super::mixes::Measured;
use super::sample::Sample;
use super::setting::Setting;

/// The number of samples in each of the three parts, after one that is discarded because the setting has just changed.
const SAMPLES: usize = 3;
/// The maximum distance from the indicators of the first sample. If it is exceeded, the comparison is invalid.
const EQUAL: f64 = 0.3;

/// The samples of one setting.
#[derive(Clone, Debug, Default)]
pub(super) struct Samples(Vec<Measured>);

impl Samples {
    fn of(&self, figure: impl Fn(&Measured) -> f64) -> impl Iterator<Item = f64> {
        self.0.iter().map(figure)
    }

    /// The means of cost and p99.
    pub(super) fn mean(&self) -> Measured {
        let mean = |sum: f64| sum / self.0.len().max(1) as f64;
        Measured {
            cost_ns: mean(self.of(|samples| samples.cost_ns).sum()),
            p99_ns: mean(self.of(|samples| samples.p99_ns).sum()),
        }
    }

    pub(super) fn minima(&self) -> Measured {
        let min = |values: &mut dyn Iterator<Item = f64>| values.fold(f64::INFINITY, f64::min);
        Measured {
            cost_ns: min(&mut self.of(|samples| samples.cost_ns)),
            p99_ns: min(&mut self.of(|samples| samples.p99_ns)),
        }
    }

    pub(super) fn largest_p99(&self) -> f64 {
        self.of(|samples| samples.p99_ns).fold(0.0, f64::max)
    }
}

/// The state of a comparison after a sample.
pub(super) enum Progress {
    /// The comparison needs more samples with this setting.
    Continues(Setting),
    /// The traffic changed.
    Invalid,
    /// The comparison is complete.
    Complete(Comparison),
}

/// The result of a complete comparison.
pub(super) struct Comparison {
    pub(super) first: Samples,
    pub(super) second: Samples,
    /// Whether clients requested clearly more with the second setting: the first one slows them down.
    pub(super) slows: bool,
}

/// A comparison.
pub(super) struct Trial {
    pub(super) first: Setting,
    pub(super) second: Setting,
    indicators: Option<Indicators>,
    sample_index: usize,
    samples: (Samples, Samples),
    slows: bool,
}

impl Trial {
    /// Creates a comparison that begins with `first`, the setting in force.
    pub(super) fn new(first: Setting, second: Setting) -> Self {
        let samples = Default::default();
        Self { first, second, indicators: None, sample_index: 0, samples, slows: false }
    }

    /// Whether the second setting was in force, and this sample has clearly more of the same operations than those of the
    /// first one. Clients that wait for responses request less if the first setting delays these.
    pub(super) fn is_relieved(&self, sample: &Sample) -> bool {
        // The first sample after the second setting may still contain requests of that time.
        let is_second = matches!(self.position(), (1, _) | (2, 0));
        let Some(reference) = self.indicators.filter(|_| is_second) else { return false };
        let operations_per_second = sample.indicators.operations_per_second;
        let scaled = Indicators { operations_per_second, ..reference };
        scaled.demand_distance(&sample.indicators) <= EQUAL
            && operations_per_second > reference.operations_per_second
            && reference.demand_distance(&scaled) > EQUAL
    }

    /// The part, and the number of samples in it.
    fn position(&self) -> (usize, usize) {
        (self.sample_index / (SAMPLES + 1), self.sample_index % (SAMPLES + 1))
    }

    /// Adds the next sample, of the setting in force.
    pub(super) fn add(&mut self, sample: &Sample) -> Progress {
        let Some(measured) = sample.measured else { return Progress::Invalid };
        let (part, index) = self.position();
        let is_relieved = index > 0 && self.is_relieved(sample);
        let reference = self.indicators.get_or_insert(sample.indicators);
        // The first sample after a change of the setting is ignored, because connections move during it.
        if index > 0 && !is_relieved && reference.demand_distance(&sample.indicators) > EQUAL {
            return Progress::Invalid;
        }
        self.slows |= is_relieved;
        if index > 0 {
            let samples = if part == 1 { &mut self.samples.1 } else { &mut self.samples.0 };
            samples.0.push(measured);
        }
        self.sample_index += 1;
        match self.sample_index / (SAMPLES + 1) {
            1 => Progress::Continues(self.second),
            0 | 2 => Progress::Continues(self.first),
            _ => {
                let (first, second) = std::mem::take(&mut self.samples);
                Progress::Complete(Comparison { first, second, slows: self.slows })
            }
        }
    }
}
