//! Automatic placement by a profile: samples the program and applies the settings that the [`Guide`] chooses.

use std::time::Duration;

use phalanx_core::{
    Control, Guide, GuideReason, GuideStep, HighLoad, ProcessorLoad, Sample, Setting,
    TrafficProfile, are_saturated,
};

use super::PlacementMode;
use super::totals::Totals;
use crate::cores::ActiveProcessors;
use crate::io::{LoadSample, Placement};

/// The length of a sample.
const SAMPLE: Duration = Duration::from_millis(500);
/// The cost of a longer interval is not used, because the program slept during part of it.
const MAX_SAMPLE: Duration = Duration::from_millis(1_500);

/// A decision of the guide, with the sample that caused it.
pub(super) struct Guidance {
    pub(super) from: Setting,
    pub(super) step: GuideStep,
    pub(super) sample: Sample,
    /// The name of the mix.
    pub(super) mix: Option<String>,
}

impl Guidance {
    /// Whether it changes the setting or reports the result of a comparison.
    pub(super) fn is_reportable(&self) -> bool {
        self.step.setting != self.from || self.step.reason != GuideReason::Steady
    }
}

/// Detects that the active processors are saturated, ignoring those that additional processors cannot relieve.
#[derive(Default)]
struct Saturation {
    high: HighLoad,
    /// The number of active processors at the last check.
    active: usize,
}

impl Saturation {
    /// Processes the loads of all processors since the last check. The load of inactive processors counts as well,
    /// because they run on the cores of the active ones.
    fn is_seen(&mut self, at: Duration, loads: &[ProcessorLoad], active: usize) -> bool {
        if std::mem::replace(&mut self.active, active) != active {
            self.high = HighLoad::default();
        }
        let is_divisible = |processor: &&ProcessorLoad| !processor.is_bottleneck();
        let load: u32 = loads.iter().filter(is_divisible).map(|processor| processor.load).sum();
        let active = loads[..active].iter().filter(is_divisible);
        let is_high = self.high.update(at.as_nanos() as u64, load.into(), active.clone().count());
        is_high || are_saturated(load.into(), active)
    }
}

pub(super) struct Guided {
    guide: Guide,
    is_applied: bool,
    saturation: Saturation,
    /// The number of the stage of the admin pages.
    admin: Option<usize>,
    before: Totals,
    /// By processor, in the last sample.
    loads: Vec<LoadSample>,
}

impl Guided {
    /// Creates the state for a program in which all processors are active.
    pub(super) fn new(
        profile: TrafficProfile,
        mode: PlacementMode,
        min: usize,
        active: &ActiveProcessors,
        admin: Option<usize>,
    ) -> Self {
        let is_applied = mode == PlacementMode::On;
        let guide = Guide::new(profile, min, active.setting());
        let guide = if is_applied { guide } else { guide.without_trials() };
        let (saturation, before) = Default::default();
        let loads = vec![LoadSample::default(); active.all()];
        Self { guide, is_applied, saturation, admin, before, loads }
    }

    /// Takes a sample if it is time, or if the active processors are saturated under these loads.
    pub(super) fn sample(
        &mut self,
        at: Duration,
        loads: &[ProcessorLoad],
        control: &Control,
        placement: &Placement,
        active: &ActiveProcessors,
    ) -> Option<Guidance> {
        let is_saturated = self.saturation.is_seen(at, loads, active.count());
        let is_saturated = is_saturated && self.is_applied && active.count() < active.all();
        let length = at.saturating_sub(Duration::from_nanos(self.before.uptime_ns));
        if length < SAMPLE && !is_saturated {
            return None;
        }
        let totals = Totals::of(control, self.admin, placement, at.as_nanos() as u64);
        let (indicators, mut measured) = totals.since(&self.before);
        self.before = totals;
        let load = self.load(at, control);
        if length > MAX_SAMPLE && !is_saturated && measured.is_some() {
            return None;
        }
        let from = self.guide.setting();
        if let Some(measured) = &mut measured {
            // Coalescing delays operations before they are invoked, so their measured waits do not include it.
            measured.p99_ns += active.coalesce_ns() as f64;
        }
        let sample = Sample { indicators, measured, load, is_saturated };
        let step = self.guide.sampled(at.as_nanos() as u64, &sample);
        if self.is_applied {
            active.apply(step.setting);
        }
        let mixes = &self.guide.profile().mixes;
        let mix = step.mix.map(|(mix, _)| mixes[mix].name.clone());
        Some(Guidance { from, step, sample, mix })
    }

    /// The load of all processors since the last sample, in thousandths of one.
    fn load(&mut self, at: Duration, control: &Control) -> u32 {
        let each = self.loads.iter_mut().enumerate().map(|(processor, sample)| {
            let parked_ns = control.parked(processor, at.as_nanos() as u64);
            *sample = sample.next(at, sample.age(at), parked_ns);
            sample.load()
        });
        each.sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bottleneck_is_no_reason_for_more_processors() {
        let busy = ProcessorLoad { load: 1_000, indivisible: 0, is_saturated: true };
        let key = ProcessorLoad { indivisible: 1_000, ..busy };
        let calm = ProcessorLoad { load: 200, indivisible: 0, is_saturated: false };
        let is_saturated = |active: &[ProcessorLoad]| {
            Saturation::default().is_seen(Duration::ZERO, active, active.len())
        };
        assert!(is_saturated(&[busy]) && is_saturated(&[busy, key]));
        assert!(!is_saturated(&[key]) && !is_saturated(&[key, calm]));
    }

    #[test]
    fn the_load_of_inactive_processors_saturates_the_active_ones() {
        let load = |load| ProcessorLoad { load, indivisible: 0, is_saturated: false };
        let loads = [100, 300, 300, 300].map(load);
        let mut saturation = Saturation::default();
        let mut observe = |begin: u64, active| {
            [0, 100, 200]
                .map(|ms| saturation.is_seen(Duration::from_millis(begin + ms), &loads, active))
        };
        assert_eq!(observe(0, 1), [false, false, true]);
        assert_eq!(observe(1_000, 2), [false; 3], "they can carry it");
        assert_eq!(observe(2_000, 1), [false, false, true], "not immediately");
    }
}
