//! Automatic placement by a profile: samples the program, and applies what the [`Guide`] chooses.

use std::time::Duration;

use phalanx_core::{
    Control, Guide, GuideReason, GuideStep, ProcessorLoad, Sample, Setting, TrafficProfile,
    are_saturated,
};

use super::PlacementMode;
use super::totals::Totals;
use crate::cores::ActiveProcessors;
use crate::io::Placement;

/// The length of a sample.
const SAMPLE: Duration = Duration::from_millis(500);
/// A longer interval contains a time in which the program slept, and is not used.
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
    /// Whether it changes the setting, or states the result of a comparison.
    pub(super) fn is_news(&self) -> bool {
        self.step.setting != self.from || self.step.reason != GuideReason::Steady
    }
}

/// Whether the active processors are saturated, without those that others cannot help.
pub(super) fn is_saturated(active: &[ProcessorLoad]) -> bool {
    let divisible = active.iter().filter(|processor| !processor.is_bottleneck());
    let load: u32 = divisible.clone().map(|processor| processor.load).sum();
    are_saturated(load.into(), divisible)
}

pub(super) struct Guided {
    guide: Guide,
    is_applied: bool,
    /// The number of the stage of the admin pages.
    admin: Option<usize>,
    before: Totals,
}

impl Guided {
    /// For a program in which all processors are active.
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
        Self { guide, is_applied, admin, before: Totals::default() }
    }

    /// Takes a sample if it is time, or if a processor is saturated.
    pub(super) fn sample(
        &mut self,
        at: Duration,
        is_saturated: bool,
        control: &Control,
        placement: &Placement,
        active: &ActiveProcessors,
    ) -> Option<Guidance> {
        let is_saturated = is_saturated && self.is_applied && active.count() < active.all();
        let length = at.saturating_sub(Duration::from_nanos(self.before.uptime_ns));
        if length < SAMPLE && !is_saturated {
            return None;
        }
        let totals = Totals::of(control, self.admin, placement, at.as_nanos() as u64);
        let (indicators, mut measured) = totals.since(&self.before);
        self.before = totals;
        if length > MAX_SAMPLE && !is_saturated {
            return None;
        }
        let from = self.guide.setting();
        if let Some(measured) = &mut measured {
            // Waiting for a batch delays operations before they are invoked, so their waits do not contain it.
            measured.p99_ns += active.coalesce_ns() as f64;
        }
        let sample = Sample { indicators, measured, is_saturated };
        let step = self.guide.sampled(at.as_nanos() as u64, &sample);
        if self.is_applied {
            active.apply(step.setting);
        }
        let mixes = &self.guide.profile().mixes;
        let mix = step.mix.map(|(mix, _)| mixes[mix].name.clone());
        Some(Guidance { from, step, sample, mix })
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
        assert!(is_saturated(&[busy]) && is_saturated(&[busy, key]));
        assert!(!is_saturated(&[key]) && !is_saturated(&[key, calm]));
    }
}
