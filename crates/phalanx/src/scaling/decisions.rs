//! The record of the decisions of automatic placement and of the indicators that led to them.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use phalanx_core::{
    GuideReason, Indicators, Measured, ProcessorLoad, ScalingStep, Setting, TrafficProfile,
};

use super::PlacementMode;
use super::guided::Guidance;
#[cfg(feature = "admin")]
use super::totals::Totals;
#[cfg(feature = "admin")]
use crate::cores::has_slow_cores;
use crate::io::{Saturated, SaturationProbe};
use crate::lock::lock;
#[cfg(feature = "admin")]
use crate::metrics::human::time;
use crate::metrics::{CostSnapshot, Counter, Gauge};
#[cfg(feature = "admin")]
use crate::metrics::{DecisionSnapshot, PlacementSnapshot, Registered};

/// Energy-saving techniques that placement does not use. The last one is used if there are slow cores.
#[cfg(feature = "admin")]
const ABSENT: [&str; 3] = ["core frequencies", "idle hints", "helper threads on slow cores"];

/// The techniques that are not used on this machine.
#[cfg(feature = "admin")]
fn absent(has_slow_cores: bool) -> &'static [&'static str] {
    &ABSENT[..ABSENT.len() - usize::from(has_slow_cores)]
}

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
    /// The number of processors that the load of the last interval would keep fully busy.
    demand: f64,
    /// The mean and the largest load of the processors in the last interval.
    mean_load: f64,
    max_load: f64,
    /// Processors that were not idle for several milliseconds.
    saturated: usize,
    /// Processors whose load cannot be divided.
    bottlenecks: usize,
    /// None without a profile.
    profile: Option<ByProfile>,
}

/// The part of a decision that a profile caused.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(not(feature = "admin"), allow(dead_code, reason = "the admin pages show them"))]
struct ByProfile {
    /// The settings, as [`Setting`] prints them.
    from: String,
    to: String,
    #[cfg_attr(feature = "serde", serde(skip))]
    setting: Setting,
    /// The recognised mix, and the distance of the traffic from it.
    mix: Option<String>,
    distance: Option<f64>,
    /// By name.
    indicators: [(&'static str, f64); 7],
    /// The costs of the setting that was compared, or else of `to`. Measured only if that setting was in force.
    predicted: Option<CostSnapshot>,
    measured: Option<CostSnapshot>,
    /// The cost of the previous setting, if it is a different one.
    measured_before: Option<CostSnapshot>,
}

fn cost(Measured { cost_ns, p99_ns }: Measured) -> CostSnapshot {
    CostSnapshot { cpu_us_per_operation: cost_ns / 1e3, p99_us: p99_ns / 1e3 }
}

impl From<&Guidance> for ByProfile {
    fn from(guidance: &Guidance) -> Self {
        let (indicators, step) = (guidance.sample.indicators, &guidance.step);
        Self {
            from: guidance.from.to_string(),
            to: step.setting.to_string(),
            setting: step.setting,
            mix: guidance.mix.clone(),
            distance: step
                .mix
                .map(|(_, distance)| distance)
                .filter(|distance| distance.is_finite()),
            indicators: indicators.named(),
            predicted: step.predicted.map(cost),
            measured: step.measured.map(cost),
            measured_before: step.measured_before.map(cost),
        }
    }
}

/// The last decisions, and the results of the last sample.
#[derive(Clone, Default)]
struct Last {
    reason: &'static str,
    mix: Option<String>,
    /// None without a profile.
    indicators: Option<Indicators>,
    decisions: VecDeque<Decision>,
}

/// The state of a program's automatic placement that its supervisor, its processors and its admin pages share.
pub(crate) struct Automatic {
    pub(super) mode: PlacementMode,
    pub(super) min: usize,
    pub(super) saturated: Arc<Saturated>,
    /// None without a profile.
    pub(super) profile: Option<TrafficProfile>,
    /// Differences between this machine and the one on which the profile was measured.
    #[cfg_attr(not(feature = "admin"), allow(dead_code, reason = "the admin pages show them"))]
    foreign: Vec<String>,
    last: Mutex<Last>,
    active: Gauge,
    needed: Gauge,
    demand: Gauge,
    up: Counter,
    down: Counter,
    kept: Counter,
    undone: Counter,
}

impl Automatic {
    /// Returns `None` if it is off.
    pub(crate) fn new(
        mode: PlacementMode,
        min: usize,
        saturated: Arc<Saturated>,
        profile: Option<(TrafficProfile, Vec<String>)>,
    ) -> Option<Arc<Self>> {
        let processors = saturated.processors();
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
        let comparisons = |result| {
            let help = "Comparisons of two settings, by result.";
            Counter::with_label("phalanx_placement_comparisons", help, ("result", result))
        };
        let (profile, foreign) = profile.unzip();
        let active = gauge("phalanx_active_processors", "Processors that receive new connections.");
        let help = "Active processors that the load needs.";
        let needed = gauge("phalanx_needed_processors", help);
        let help = "Processors that the load would keep fully busy, in thousandths.";
        Some(Arc::new(Self {
            mode,
            min: min.clamp(1, processors),
            saturated,
            profile,
            foreign: foreign.unwrap_or_default(),
            last: Mutex::new(Last { reason: "steady", ..Last::default() }),
            active,
            needed,
            demand: Gauge::new("phalanx_placement_demand_thousandths", help),
            up: steps("up"),
            down: steps("down"),
            kept: comparisons("kept"),
            undone: comparisons("undone"),
        }))
    }

    /// The probe of one processor.
    pub(crate) fn probe(&self, processor: usize) -> SaturationProbe {
        SaturationProbe::new(self.saturated.clone(), processor)
    }

    fn last(&self) -> MutexGuard<'_, Last> {
        lock(&self.last)
    }

    /// Records a decision of the control law for the number of processors.
    pub(super) fn record(
        &self,
        at: Duration,
        from: usize,
        step: &ScalingStep,
        loads: &[ProcessorLoad],
    ) {
        self.show(from, step.active, step.demand);
        self.last().reason = step.reason.as_str();
        if step.active != from {
            let reason = step.reason.as_str();
            self.push(Decision::new(at, (from, step.active), reason, loads, step.bottlenecks));
        }
    }

    /// Records a decision of the guide.
    pub(super) fn record_guidance(
        &self,
        at: Duration,
        guidance: &Guidance,
        loads: &[ProcessorLoad],
    ) {
        let step = &guidance.step;
        let (from, to, reason) = (guidance.from.active, step.setting.active, step.reason);
        let load: u32 = loads.iter().map(|processor| processor.load).sum();
        self.show(from, to, f64::from(load) / 1000.0);
        match reason {
            GuideReason::Kept => self.kept.add(1),
            GuideReason::Undone => self.undone.add(1),
            _ => (),
        }
        let mut last = self.last();
        (last.reason, last.mix) = (reason.as_str(), guidance.mix.clone());
        last.indicators = Some(guidance.sample.indicators);
        drop(last);
        if guidance.is_reportable() {
            let active = &loads[..from.min(loads.len())];
            let bottlenecks = active.iter().filter(|processor| processor.is_bottleneck()).count();
            let decision = Decision::new(at, (from, to), reason.as_str(), loads, bottlenecks);
            self.push(Decision { profile: Some(guidance.into()), ..decision });
        }
    }

    fn show(&self, from: usize, to: usize, demand: f64) {
        self.needed.set(to as i64);
        if self.mode == PlacementMode::On {
            self.active.set(to as i64);
        }
        self.demand.set((1000.0 * demand) as i64);
        match to.cmp(&from) {
            Ordering::Greater => self.up.add(1),
            Ordering::Less => self.down.add(1),
            Ordering::Equal => (),
        }
    }

    fn push(&self, decision: Decision) {
        let decisions = &mut self.last().decisions;
        if decisions.len() == MAX_DECISIONS {
            decisions.pop_front();
        }
        decisions.push_back(decision);
    }
}

impl Decision {
    fn new(
        at: Duration,
        (from, to): (usize, usize),
        reason: &'static str,
        loads: &[ProcessorLoad],
        bottlenecks: usize,
    ) -> Self {
        let sum: u32 = loads.iter().map(|processor| processor.load).sum();
        let max = loads.iter().map(|processor| processor.load).max().unwrap_or(0);
        Self {
            uptime_ms: at.as_millis() as u64,
            from,
            to,
            reason,
            demand: f64::from(sum) / 1000.0,
            mean_load: f64::from(sum) / 1000.0 / loads.len().max(1) as f64,
            max_load: f64::from(max) / 1000.0,
            saturated: loads.iter().filter(|processor| processor.is_saturated).count(),
            bottlenecks,
            profile: None,
        }
    }
}

#[cfg(feature = "admin")]
impl Automatic {
    /// Adds its metrics to `metrics`.
    pub(crate) fn register(automatic: Option<&Self>, mut metrics: Registered) -> Registered {
        if let Some(this) = automatic {
            [&this.up, &this.down, &this.kept, &this.undone]
                .into_iter()
                .for_each(|counter| metrics.add_counter(counter));
            let gauges = [&this.active, &this.needed, &this.demand];
            gauges.into_iter().for_each(|gauge| metrics.add_gauge(gauge));
        }
        metrics
    }

    /// The last observation and decision.
    pub(crate) fn snapshot(&self) -> PlacementSnapshot {
        let last = self.last();
        let indicators = last.indicators.iter().flat_map(Indicators::named);
        PlacementSnapshot {
            mode: self.mode.as_str().into(),
            reason: last.reason.into(),
            mix: last.mix.clone(),
            indicators: indicators.map(|(name, figure)| (name.into(), figure)).collect(),
            decision: last.decisions.back().map(DecisionSnapshot::from),
        }
    }

    /// The content of `/placement.json`.
    pub(crate) fn json(
        automatic: Option<&Self>,
        setting: Setting,
        processors: usize,
        totals: Totals,
    ) -> Vec<u8> {
        let last = automatic.map(|this| this.last().clone());
        let report = Report {
            version: 1,
            mode: automatic.map_or(PlacementMode::Off, |this| this.mode).as_str(),
            min: automatic.map_or(processors, |this| this.min),
            max: processors,
            active: setting.active,
            needed: automatic.map(|this| this.needed.get()),
            demand: automatic.map(|this| this.demand.get() as f64 / 1000.0),
            profile: automatic.and_then(|this| {
                let mixes = this.profile.as_ref()?.mixes.iter();
                let mixes = mixes.map(|mix| mix.name.clone()).collect();
                let mix = last.as_ref().and_then(|last| last.mix.clone());
                Some(ProfileReport { mixes, mix, foreign: this.foreign.clone() })
            }),
            setting: setting.to_string(),
            absent: absent(has_slow_cores()),
            totals,
            reason: last.as_ref().map(|last| last.reason),
            decisions: last.map(|last| last.decisions).unwrap_or_default(),
        };
        serde_json::to_vec(&report).expect("plain figures")
    }
}

/// A setting in the words of the options of a server.
#[cfg(feature = "admin")]
fn described(Setting { active, spin_ns, coalesce_ns }: Setting) -> String {
    let [spin, delay] = [spin_ns, coalesce_ns].map(|nanos| time(nanos as f64));
    format!("{active} active, spin {spin}, batch-delay {delay}")
}

#[cfg(feature = "admin")]
impl From<&Decision> for DecisionSnapshot {
    fn from(decision: &Decision) -> Self {
        let profile = decision.profile.as_ref();
        let active = || format!("{} active", decision.to);
        Self {
            uptime_ns: decision.uptime_ms * 1_000_000,
            to: profile.map_or_else(active, |by| described(by.setting)),
            reason: decision.reason.into(),
            predicted: profile.and_then(|by| by.predicted),
            measured: profile.and_then(|by| by.measured),
            measured_before: profile.and_then(|by| by.measured_before),
        }
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
    /// This field and the next two are `None` if automatic placement is off.
    needed: Option<i64>,
    demand: Option<f64>,
    /// The reason of the last sample of the loads.
    reason: Option<&'static str>,
    /// The setting in force, in nanoseconds.
    setting: String,
    absent: &'static [&'static str],
    /// None without a profile.
    profile: Option<ProfileReport>,
    totals: Totals,
    /// The oldest first.
    decisions: VecDeque<Decision>,
}

#[cfg(feature = "admin")]
#[derive(serde::Serialize)]
struct ProfileReport {
    /// The names of the mixes in the file.
    mixes: Vec<String>,
    /// The one that the traffic resembles.
    mix: Option<String>,
    /// Differences of the machine.
    foreign: Vec<String>,
}

#[cfg(test)]
mod tests {
    use phalanx_core::ScalingReason;

    use super::*;

    #[cfg(feature = "admin")]
    #[test]
    fn slow_cores_are_absent_only_where_there_are_none() {
        assert_eq!(absent(true), ["core frequencies", "idle hints"]);
        assert_eq!(absent(false)[2], "helper threads on slow cores");
    }

    #[test]
    fn the_last_decisions_are_kept_with_their_indicators() {
        let decisions = Automatic::new(PlacementMode::Advise, 1, Saturated::new(4), None).unwrap();
        let load = ProcessorLoad { load: 500, indivisible: 0, is_saturated: true };
        let step = |active, reason| ScalingStep { active, reason, demand: 1.5, bottlenecks: 0 };
        for second in 0..100 {
            let at = Duration::from_secs(second);
            decisions.record(at, 4, &step(4, ScalingReason::Steady), &[load; 4]);
            decisions.record(at, 4, &step(2, ScalingReason::Idle), &[load; 4]);
        }
        assert_eq!((decisions.up.count(), decisions.down.count()), (0, 100));
        let last = decisions.last();
        assert_eq!((last.reason, last.decisions.len()), ("idle", MAX_DECISIONS));
        let newest = last.decisions.back().unwrap();
        assert_eq!((newest.uptime_ms, newest.from, newest.to, newest.saturated), (99_000, 4, 2, 4));
        assert_eq!((newest.mean_load, newest.max_load, newest.reason), (0.5, 0.5, "idle"));
        #[cfg(feature = "admin")]
        assert_eq!(DecisionSnapshot::from(newest).to, "2 active");
    }
}
