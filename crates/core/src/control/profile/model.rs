//! A model of the cost of settings, for testing the law.
//!
//! A processor runs cohorts that cost a fixed time and a time per operation. A cohort contains the operations that
//! arrived since the last one, so fewer processors and longer waits mean larger cohorts. Large transfers have a copying
//! cost that rises if they use the caches of fewer processors.

use super::{Indicators, Measured, Mix, Point, Sample, Setting, TrafficProfile, pareto};

pub(super) const PROCESSORS: usize = 8;
/// The fixed time of a cohort, in nanoseconds.
const COHORT: f64 = 6_000.0;
const MAX_COHORT: f64 = 64.0;
pub(super) const INTERVAL: u64 = 500_000_000;

/// All processors, with the program's limits of spinning and of coalescing.
pub(super) const PEAK: Setting = Setting { active: PROCESSORS, spin_ns: 20_000, coalesce_ns: 0 };

/// Traffic.
#[derive(Clone, Copy, Debug)]
pub(super) struct Traffic {
    /// Operations per second.
    pub(super) rate: f64,
    /// Bytes per response.
    pub(super) bytes: f64,
    /// Geometric mean of the bytes of a response.
    pub(super) typical: f64,
    /// The time of an operation in nanoseconds, without its share of the cohort's fixed time.
    pub(super) service: f64,
    /// The relative increase of that time for each inactive processor, because there is less cache.
    pub(super) crowding: f64,
}

/// Three loads with sizes of Figures 3 and 4 of the NewtOS paper, without its 1 MB (§5). Rates and times are invented.
pub(super) const LOADS: [Traffic; 3] = [
    Traffic { rate: 60_000.0, bytes: 10.0, typical: 10.0, service: 4_000.0, crowding: 0.0 },
    Traffic { rate: 8_000.0, bytes: 100e3, typical: 100e3, service: 60_000.0, crowding: 0.01 },
    Traffic { rate: 100.0, bytes: 10e6, typical: 10e6, service: 9_000_000.0, crowding: 0.10 },
];

impl Traffic {
    pub(super) fn indicators(&self) -> Indicators {
        Indicators {
            operations_per_second: self.rate,
            bytes_in_per_operation: 80.0,
            bytes_out_per_operation: self.bytes,
            bytes_per_receive: 80.0,
            typical_bytes_per_send: self.typical,
            opens_per_operation: 0.0,
            sockets: 64.0,
        }
    }

    /// The true cost of a setting.
    pub(super) fn measured(&self, setting: Setting) -> Measured {
        let missing = (PROCESSORS - setting.active) as f64;
        let each = self.rate / setting.active as f64;
        let service = self.service * (1.0 + self.crowding * missing);
        let gap = COHORT + setting.coalesce_ns as f64;
        let cohort = (1.0 + each * gap / 1e9).min(MAX_COHORT);
        let cost = service + COHORT / cohort;
        let load = each * cost / 1e9;
        // Polling costs a fraction of the idle time.
        let polled = setting.spin_ns as f64 * 0.05 / cohort;
        let p99 =
            if load < 1.0 { 4.6 * cost / (1.0 - load) + setting.coalesce_ns as f64 } else { 1e9 };
        Measured { cost_ns: cost + polled, p99_ns: p99 }
    }

    pub(super) fn is_saturated(&self, setting: Setting) -> bool {
        self.rate / setting.active as f64 * self.measured(setting).cost_ns / 1e9 > 0.97
    }

    pub(super) fn point(&self, setting: Setting) -> Point {
        let (indicators, measured) = (self.indicators(), self.measured(setting));
        Point { setting, indicators, measured }
    }

    /// The mix with the Pareto set of all settings.
    pub(super) fn mix(&self) -> Mix {
        let points: Vec<_> = settings().map(|setting| self.point(setting)).collect();
        let name = format!("{} B", self.bytes);
        Mix { name, peak: self.point(PEAK), points: pareto(&points) }
    }

    /// The least cost of a setting whose p99 is near the p99 with all processors.
    pub(super) fn least_cost(&self) -> f64 {
        let max_p99 = 1.15 * self.measured(PEAK).p99_ns;
        let all = settings().map(|setting| self.measured(setting));
        let acceptable = all.filter(|measured| measured.p99_ns <= max_p99);
        acceptable.map(|measured| measured.cost_ns).fold(f64::INFINITY, f64::min)
    }
}

/// All settings of the grid.
pub(super) fn settings() -> impl Iterator<Item = Setting> {
    let limits = [0, 20_000, 50_000].into_iter().flat_map(|spin| {
        [0, 200_000, 500_000, 1_000_000].into_iter().map(move |coalesce| (spin, coalesce))
    });
    limits.flat_map(|(spin_ns, coalesce_ns)| {
        (1..=PROCESSORS).map(move |active| Setting { active, spin_ns, coalesce_ns })
    })
}

pub(super) fn profile(loads: &[Traffic]) -> TrafficProfile {
    TrafficProfile { mixes: loads.iter().map(Traffic::mix).collect() }
}

/// Draws samples with noise.
pub(super) struct Noise(pub(super) u64);

impl Noise {
    fn factor(&mut self, range: f64) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        1.0 + range * ((self.0 >> 11) as f64 / (1u64 << 52) as f64 - 1.0)
    }

    pub(super) fn sample(&mut self, traffic: &Traffic, setting: Setting) -> Sample {
        let mut indicators = traffic.indicators();
        indicators.operations_per_second *= self.factor(0.05);
        let Measured { cost_ns, p99_ns } = traffic.measured(setting);
        let (cost_ns, p99_ns) = (cost_ns * self.factor(0.02), p99_ns * self.factor(0.05));
        Sample {
            indicators,
            measured: Some(Measured { cost_ns, p99_ns }),
            load: 0,
            is_saturated: traffic.is_saturated(setting),
        }
    }
}
