//! The record of what automatic placement has decided, and on which indicators.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use phalanx_core::{ProcessorLoad, ScalingReason, ScalingStep};

use super::PlacementMode;
use super::saturation::{Saturated, SaturationProbe};
#[cfg(feature = "admin")]
use crate::metrics::Registered;
use crate::metrics::{Counter, Gauge};

/// The number of decisions that are kept.
const MAX_DECISIONS: usize = 64;

/// A change of the number of active processors, or one that was advised.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(not(feature = "admin"), allow(dead_code, reason = "the admin pages show them"))]
pub(crate) struct Decision {
    /// Milliseconds since the start.
    uptime_ms: u64,
    from: usize,
    to: usize,
    reason: &'static str,
    /// The number of processors that the load would keep fully busy, averaged.
    demand: f64,
    /// The mean and the largest load of the processors in the last interval.
    mean_load: f64,
    max_load: f64,
    /// Processors that were not idle for several milliseconds.
    saturated: usize,
    /// Processors whose load cannot be divided.
    bottlenecks: usize,
}

/// The automatic placement of one program: what its supervisor, its processors and its admin pages share.
pub(crate) struct Automatic {
    pub(super) mode: PlacementMode,
    pub(super) min: usize,
    pub(super) saturated: Arc<Saturated>,
    last: Mutex<(ScalingReason, VecDeque<Decision>)>,
    active: Gauge,
    needed: Gauge,
    demand: Gauge,
    up: Counter,
    down: Counter,
}

impl Automatic {
    /// None if it is off.
    pub(crate) fn new(mode: PlacementMode, min: usize, processors: usize) -> Option<Arc<Self>> {
        if mode == PlacementMode::Off {
            return None;
        }
        let steps = |direction| {
            let help = "Changes of the number of active processors that were made or advised.";
            Counter::with_label("phalanx_placement_steps", help, ("direction", direction))
        };
        let gauge = |name, help| {
            let gauge = Gauge::new(name, help);
            gauge.set(processors as i64);
            gauge
        };
        let active = gauge("phalanx_active_processors", "Processors that get new connections.");
        let help = "Active processors that the load needs.";
        let needed = gauge("phalanx_needed_processors", help);
        let help = "Processors that the load would keep fully busy, in thousandths.";
        Some(Arc::new(Self {
            mode,
            min: min.clamp(1, processors),
            saturated: Saturated::new(processors),
            last: Mutex::new((ScalingReason::Steady, VecDeque::new())),
            active,
            needed,
            demand: Gauge::new("phalanx_placement_demand_thousandths", help),
            up: steps("up"),
            down: steps("down"),
        }))
    }

    /// The probe of one processor.
    pub(crate) fn probe(&self, processor: usize) -> SaturationProbe {
        SaturationProbe::new(self.saturated.clone(), processor)
    }

    fn last(&self) -> MutexGuard<'_, (ScalingReason, VecDeque<Decision>)> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn record(
        &self,
        at: Duration,
        from: usize,
        step: &ScalingStep,
        loads: &[ProcessorLoad],
    ) {
        self.needed.set(step.active as i64);
        if self.mode == PlacementMode::On {
            self.active.set(step.active as i64);
        }
        self.demand.set((1000.0 * step.demand) as i64);
        let mut last = self.last();
        last.0 = step.reason;
        if step.active == from {
            return;
        }
        if step.active > from {
            self.up.add(1)
        } else {
            self.down.add(1)
        }
        let sum: u32 = loads.iter().map(|processor| processor.load).sum();
        let max = loads.iter().map(|processor| processor.load).max().unwrap_or(0);
        if last.1.len() == MAX_DECISIONS {
            last.1.pop_front();
        }
        last.1.push_back(Decision {
            uptime_ms: at.as_millis() as u64,
            from,
            to: step.active,
            reason: step.reason.as_str(),
            demand: step.demand,
            mean_load: f64::from(sum) / 1000.0 / loads.len().max(1) as f64,
            max_load: f64::from(max) / 1000.0,
            saturated: loads.iter().filter(|processor| processor.is_saturated).count(),
            bottlenecks: step.bottlenecks,
        });
    }
}

#[cfg(feature = "admin")]
impl Automatic {
    /// Adds its metrics to `metrics`.
    pub(crate) fn register(automatic: Option<&Self>, mut metrics: Registered) -> Registered {
        if let Some(this) = automatic {
            [&this.up, &this.down].into_iter().for_each(|counter| metrics.add_counter(counter));
            let gauges = [&this.active, &this.needed, &this.demand];
            gauges.into_iter().for_each(|gauge| metrics.add_gauge(gauge));
        }
        metrics
    }

    /// The content of `/placement.json`.
    pub(crate) fn json(automatic: Option<&Self>, active: usize, processors: usize) -> Vec<u8> {
        let last = automatic.map(|this| this.last().clone());
        let report = Report {
            version: 1,
            mode: automatic.map_or(PlacementMode::Off, |this| this.mode).as_str(),
            min: automatic.map_or(processors, |this| this.min),
            max: processors,
            active,
            needed: automatic.map(|this| this.needed.get()),
            demand: automatic.map(|this| this.demand.get() as f64 / 1000.0),
            reason: last.as_ref().map(|(reason, _)| reason.as_str()),
            decisions: last.map(|(_, decisions)| decisions).unwrap_or_default(),
        };
        serde_json::to_vec(&report).expect("plain figures")
    }
}

#[cfg(feature = "admin")]
#[derive(serde::Serialize)]
struct Report {
    version: u32,
    mode: &'static str,
    min: usize,
    max: usize,
    active: usize,
    /// These three are none if automatic placement is off.
    needed: Option<i64>,
    demand: Option<f64>,
    /// The reason of the last look at the loads.
    reason: Option<&'static str>,
    /// The oldest first.
    decisions: VecDeque<Decision>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_decisions_are_kept_with_their_indicators() {
        let decisions = Automatic::new(PlacementMode::Advise, 1, 4).unwrap();
        let load = ProcessorLoad { load: 500, indivisible: 0, is_saturated: true };
        let step = |active, reason| ScalingStep { active, reason, demand: 1.5, bottlenecks: 0 };
        for second in 0..100 {
            let at = Duration::from_secs(second);
            decisions.record(at, 4, &step(4, ScalingReason::Steady), &[load; 4]);
            decisions.record(at, 4, &step(2, ScalingReason::Idle), &[load; 4]);
        }
        assert_eq!((decisions.up.count(), decisions.down.count()), (0, 100));
        let last = decisions.last();
        assert_eq!((last.0, last.1.len()), (ScalingReason::Idle, MAX_DECISIONS));
        let newest = last.1.back().unwrap();
        assert_eq!((newest.uptime_ms, newest.from, newest.to, newest.saturated), (99_000, 4, 2, 4));
        assert_eq!((newest.mean_load, newest.max_load, newest.reason), (0.5, 0.5, "idle"));
    }
}
