//! The measured mixes of traffic, and the choice of a setting for each.

use super::indicators::Indicators;
use super::setting::Setting;

/// The maximum distance at which a mix is recognised, which corresponds to a factor of 1.6 in one indicator.
const MAX_DISTANCE: f64 = 0.47;
/// Another mix replaces the current one only if its distance is smaller by this factor.
const MAX_DISTANCE_RATIO: f64 = 0.8;
/// A setting is chosen only if the ratio of its p99 to the p99 at the peak is at most this.
pub(super) const MAX_P99: f64 = 1.15;
/// A setting is not worth choosing if the ratio of its CPU time to the CPU time at the peak is at least this.
const MAX_COST_RATIO: f64 = 0.95;

/// The cost of a setting.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measured {
    /// CPU time per operation, in nanoseconds.
    pub cost_ns: f64,
    /// The 99th percentile of a latency, in nanoseconds. It must be the same kind of latency in all settings that are
    /// compared.
    pub p99_ns: f64,
}

/// A setting as measured under a mix.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The setting.
    pub setting: Setting,
    /// The indicators with this setting.
    pub indicators: Indicators,
    /// The cost of the setting.
    pub measured: Measured,
}

/// A mix of traffic.
#[derive(Clone, Debug, PartialEq)]
pub struct Mix {
    /// A name for display.
    pub name: String,
    /// The setting with all processors and the program's own limits of spinning and coalescing.
    pub peak: Point,
    /// The settings that are worth choosing.
    pub points: Vec<Point>,
}

impl Mix {
    /// The setting with the least CPU time among those whose p99 is near the p99 at the peak. If no setting takes
    /// clearly less than the peak, the peak.
    pub fn choice(&self) -> &Point {
        self.better().unwrap_or(&self.peak)
    }

    /// The choice, if it is not the peak.
    pub(super) fn better(&self) -> Option<&Point> {
        let peak = self.peak.measured;
        let is_acceptable = |point: &&Point| {
            let Measured { cost_ns, p99_ns } = point.measured;
            p99_ns <= MAX_P99 * peak.p99_ns && cost_ns <= MAX_COST_RATIO * peak.cost_ns
        };
        let acceptable = self.points.iter().filter(is_acceptable);
        let cost = |point: &&Point| point.measured.cost_ns;
        acceptable.min_by(|a, b| cost(a).total_cmp(&cost(b)))
    }

    /// The distance to the nearest point.
    pub(super) fn distance(&self, indicators: &Indicators) -> f64 {
        let points = self.points.iter().chain([&self.peak]);
        let distances = points.map(|point| point.indicators.distance(indicators));
        distances.fold(f64::INFINITY, f64::min)
    }
}

/// The measured mixes of a program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TrafficProfile {
    /// The mixes, in any order.
    pub mixes: Vec<Mix>,
}

impl TrafficProfile {
    /// The index and the distance of the mix that these indicators resemble, if there is one. `current` is the index of
    /// the current mix, which is kept unless another one is clearly nearer.
    pub fn recognise(
        &self,
        indicators: &Indicators,
        current: Option<usize>,
    ) -> Option<(usize, f64)> {
        let distances = self.mixes.iter().map(|mix| mix.distance(indicators)).enumerate();
        let known = distances.filter(|(_, distance)| *distance <= MAX_DISTANCE);
        let nearest = known.min_by(|(_, a), (_, b)| a.total_cmp(b))?;
        let unchanged = current.and_then(|index| {
            let distance = self.mixes.get(index)?.distance(indicators);
            (distance <= MAX_DISTANCE && nearest.1 > MAX_DISTANCE_RATIO * distance)
                .then_some((index, distance))
        });
        Some(unchanged.unwrap_or(nearest))
    }
}

/// The points for which no other point has both a lower cost and a lower p99, in order of increasing cost.
///
/// ```
/// use phalanx_core::{Indicators, Measured, Point, Setting, pareto};
///
/// let point = |active, cost_ns, p99_ns| Point {
///     setting: Setting { active, spin_ns: 0, coalesce_ns: 0 },
///     indicators: Indicators::default(),
///     measured: Measured { cost_ns, p99_ns },
/// };
/// let best = pareto(&[point(4, 9.0, 3.0), point(1, 5.0, 8.0), point(2, 6.0, 9.0)]);
/// assert_eq!(best.iter().map(|point| point.setting.active).collect::<Vec<_>>(), [1, 4]);
/// ```
pub fn pareto(points: &[Point]) -> Vec<Point> {
    let mut sorted = points.to_vec();
    let key = |point: &Point| (point.measured.cost_ns, point.measured.p99_ns);
    sorted.sort_by(|a, b| {
        let ((cost, p99), (other_cost, other_p99)) = (key(a), key(b));
        cost.total_cmp(&other_cost).then(p99.total_cmp(&other_p99))
    });
    let mut min_p99 = f64::INFINITY;
    sorted.retain(|point| {
        let is_better = point.measured.p99_ns < min_p99;
        min_p99 = min_p99.min(point.measured.p99_ns);
        is_better
    });
    sorted
}
