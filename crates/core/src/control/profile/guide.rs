//! The control law, which chooses a setting from a profile and corrects the profile by comparisons.
//!
//! 1. **Recognise.** A mix counts as recognised after [`MIN_AGREEING_SAMPLES`] consecutive samples; the profile's
//!    choice for it then applies. If the traffic resembles no mix, the *peak* setting applies, which uses all
//!    processors. If such traffic persists, it becomes a new mix.
//! 2. **Verify.** The choice is compared with the peak. If the peak takes less CPU time, if the choice has a much
//!    higher p99, or if clients request clearly more at the peak, the choice is undone. The p99 in the profile is
//!    measured by the client and may include more than that of a sample, so the difference is taken relative to the
//!    larger of the two.
//! 3. **Refine.** From time to time, the setting is compared with one that differs in one parameter. The new setting is
//!    kept if it takes less CPU time than every sample of the old one and its p99 is near the peak's. Otherwise it is
//!    undone, and the pause before the next comparison doubles. The pause also doubles if the traffic changed during a
//!    comparison. It halves after a setting was kept.
//! 4. **Quiet.** If there is too little traffic to measure its cost, a comparison is invalid. After a while, the number
//!    of processors is reduced to what the load needs. The first sample with traffic restores the setting, before the
//!    traffic is recognised.
//! 5. **Saturation.** When a processor is saturated, the peak applies immediately. The mix's choice applies again after
//!    a pause.

use super::indicators::Indicators;
use super::mixes::{MAX_P99, Measured, Mix, Point, TrafficProfile};
use super::quiet::Quiet;
use super::reason::GuideReason;
use super::sample::Sample;
use super::setting::{DIRECTIONS, Setting};
use super::trial::{Comparison, Progress, Trial};

/// The number of consecutive samples that must show another mix before the setting changes.
const MIN_AGREEING_SAMPLES: u32 = 3;
/// The number of consecutive samples of unknown traffic before it becomes a mix.
const PERSISTENT: u32 = 20;
/// The maximum number of mixes in a [`TrafficProfile`]. A [`Guide`] ignores further ones.
pub const MAX_MIXES: usize = 64;
/// The initial and the maximum pause between two comparisons, in nanoseconds.
const PAUSES: (u64, u64) = (10_000_000_000, 1_280_000_000_000);

/// A decision of the guide.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GuideStep {
    /// The new setting.
    pub setting: Setting,
    /// The reason for the decision.
    pub reason: GuideReason,
    /// The index of the mix in the profile, and its distance.
    pub mix: Option<(usize, f64)>,
    /// The predicted cost, if the profile contains it: of the setting that was compared, otherwise of this one.
    pub predicted: Option<Measured>,
    /// The measured cost of the same setting: of the one that was compared, otherwise of this one if it was in force.
    pub measured: Option<Measured>,
    /// The measured cost of the previous setting, if it is a different one.
    pub measured_before: Option<Measured>,
}

/// The measurements of a mix.
#[derive(Clone, Copy)]
struct MixState {
    setting: Setting,
    /// The p99 of the peak when the setting was compared with it; `None` if it was not.
    peak_p99: Option<f64>,
    /// The time at which the next comparison is due.
    next_trial: u64,
    pause: u64,
    direction: usize,
    /// The time until which the peak applies.
    peak_until: u64,
}

/// The control law, with its state.
pub struct Guide {
    profile: TrafficProfile,
    mix_states: Vec<MixState>,
    min: usize,
    peak: Setting,
    setting: Setting,
    mix: Option<usize>,
    /// The mix that the last samples showed, and the number of these samples.
    latest_mix: (Option<usize>, u32),
    /// Unknown traffic, and the number of samples that resembled it.
    unknown_traffic: (Indicators, u32),
    trial: Option<Trial>,
    quiet: Quiet,
    /// The setting before the number of processors was reduced because of too little traffic.
    setting_before_quiet: Option<Setting>,
    /// Whether it may compare settings.
    has_trials: bool,
}

impl Guide {
    /// Creates a guide that uses at least `min` active processors and begins with `peak`, the setting with all
    /// processors. Settings of the profile whose number of processors is out of this range are changed to the nearest
    /// number.
    pub fn new(mut profile: TrafficProfile, min: usize, peak: Setting) -> Self {
        let min = min.clamp(1, peak.active);
        profile.mixes.truncate(MAX_MIXES);
        for mix in &mut profile.mixes {
            for point in mix.points.iter_mut().chain([&mut mix.peak]) {
                point.setting.active = point.setting.active.clamp(min, peak.active);
            }
        }
        let mix_states = profile.mixes.iter().map(|mix| MixState::new(mix, peak, 0)).collect();
        let unknown_traffic = (Indicators::default(), 0);
        let (mix, latest_mix, trial) = (None, (None, 0), None);
        Self {
            profile,
            mix_states,
            min,
            peak,
            setting: peak,
            mix,
            latest_mix,
            unknown_traffic,
            trial,
            quiet: Quiet::new(),
            setting_before_quiet: None,
            has_trials: true,
        }
    }

    /// Makes the guide only recognise mixes. Its settings are not applied, so it cannot compare them.
    #[must_use]
    pub fn without_trials(self) -> Self {
        Self { has_trials: false, ..self }
    }

    /// The setting in force.
    pub fn setting(&self) -> Setting {
        self.setting
    }

    /// The profile, with the learned costs.
    pub fn profile(&self) -> &TrafficProfile {
        &self.profile
    }

    /// Processes the sample of the interval that ended at `now`, in nanoseconds.
    pub fn sampled(&mut self, now: u64, sample: &Sample) -> GuideStep {
        if sample.is_saturated && self.setting.active < self.peak.active {
            return self.observe_saturation(now, sample);
        }
        if sample.measured.is_none() {
            return self.observe_quiet(now, sample);
        }
        self.quiet.end();
        let resumed = self.setting_before_quiet.take();
        let is_relieved = self.trial.as_ref().is_some_and(|trial| trial.is_relieved(sample));
        let recognised = match self.mix {
            Some(mix) if is_relieved => {
                Some((mix, self.profile.mixes[mix].distance(&sample.indicators)))
            }
            _ => self.profile.recognise(&sample.indicators, self.mix),
        };
        let latest_mix = recognised.map(|(mix, _)| mix);
        let number =
            if self.latest_mix.0 == latest_mix { self.latest_mix.1.saturating_add(1) } else { 1 };
        self.latest_mix = (latest_mix, number);
        if latest_mix != self.mix {
            return if number >= MIN_AGREEING_SAMPLES {
                self.change_mix(now, sample, recognised)
            } else if let Some(setting) = resumed {
                self.step(setting, GuideReason::Resumed, sample)
            } else {
                self.end_trial(now, sample)
            };
        }
        let Some((mix, distance)) = recognised else { return self.observe_unknown(now, sample) };
        self.compare(now, sample, mix, distance)
    }

    fn step(&mut self, setting: Setting, reason: GuideReason, sample: &Sample) -> GuideStep {
        // Without trials, the chosen setting is only advice and not in force.
        let in_force = if self.has_trials { self.setting } else { self.peak };
        self.setting = setting;
        let distance = |mix: usize| self.profile.mixes[mix].distance(&sample.indicators);
        let mix = self.mix.map(|mix| (mix, distance(mix)));
        let known = mix.and_then(|(mix, _)| self.profile.mixes[mix].point(setting));
        let predicted = known.map(|point| point.measured);
        let (measured, measured_before) =
            if setting == in_force { (sample.measured, None) } else { (None, sample.measured) };
        GuideStep { setting, reason, mix, predicted, measured, measured_before }
    }

    /// Handles an interval with too little traffic to measure its cost.
    fn observe_quiet(&mut self, now: u64, sample: &Sample) -> GuideStep {
        let sufficient_processors =
            self.quiet.sufficient_processors(now, sample.load, self.setting.active, self.min);
        match sufficient_processors {
            Some(active) if self.trial.is_none() => {
                self.setting_before_quiet.get_or_insert(self.setting);
                self.step(Setting { active, ..self.setting }, GuideReason::Idle, sample)
            }
            _ => self.end_trial(now, sample),
        }
    }

    fn observe_saturation(&mut self, now: u64, sample: &Sample) -> GuideStep {
        (self.trial, self.setting_before_quiet) = (None, None);
        self.quiet.interrupt();
        if let Some(mix) = self.mix {
            let state = &mut self.mix_states[mix];
            state.peak_until = now.saturating_add(state.pause);
            state.wait(now, true);
        }
        self.step(self.peak, GuideReason::Saturated, sample)
    }

    /// Handles a change of the traffic to another mix or to an unknown one.
    fn change_mix(
        &mut self,
        now: u64,
        sample: &Sample,
        recognised: Option<(usize, f64)>,
    ) -> GuideStep {
        (self.mix, self.trial) = (recognised.map(|(mix, _)| mix), None);
        match self.mix {
            Some(mix) => {
                let setting = self.mix_states[mix].setting_at(now, self.peak);
                self.step(setting, GuideReason::Recognised, sample)
            }
            None => {
                self.unknown_traffic = (sample.indicators, 0);
                self.step(self.peak, GuideReason::Unknown, sample)
            }
        }
    }

    /// Ends a comparison, if there is one, and keeps its first setting. The next one follows after a pause.
    fn end_trial(&mut self, now: u64, sample: &Sample) -> GuideStep {
        let Some(trial) = self.trial.take() else {
            return self.step(self.setting, GuideReason::Steady, sample);
        };
        if let Some(mix) = self.mix {
            self.mix_states[mix].wait(now, true);
        }
        self.step(trial.first, GuideReason::Invalid, sample)
    }

    /// Records unknown traffic, which becomes a mix if it persists.
    fn observe_unknown(&mut self, now: u64, sample: &Sample) -> GuideStep {
        let (indicators, number) = &mut self.unknown_traffic;
        if indicators.demand_distance(&sample.indicators) > 0.3 {
            (*indicators, *number) = (sample.indicators, 0);
        }
        *number += 1;
        if *number >= PERSISTENT
            && self.profile.mixes.len() < MAX_MIXES
            && let Some(measured) = sample.measured
        {
            *number = 0;
            let peak = Point { setting: self.peak, indicators: sample.indicators, measured };
            let name = format!("seen {}", self.profile.mixes.len() + 1);
            let mix = Mix { name, peak, points: Vec::new() };
            self.mix_states.push(MixState::new(&mix, self.peak, now));
            self.profile.mixes.push(mix);
        }
        let is_back = self.setting != self.peak;
        let reason = if is_back { GuideReason::Unknown } else { GuideReason::Steady };
        self.step(self.peak, reason, sample)
    }

    /// Continues a comparison, or begins one that is due.
    fn compare(&mut self, now: u64, sample: &Sample, mix: usize, distance: f64) -> GuideStep {
        let state = &mut self.mix_states[mix];
        let Some(trial) = &mut self.trial else {
            let setting = state.setting_at(now, self.peak);
            if setting != self.setting {
                return self.step(setting, GuideReason::Recognised, sample);
            }
            if self.has_trials && now >= state.next_trial && now >= state.peak_until {
                self.trial = state.trial(self.peak, self.min);
            }
            return self.step(setting, GuideReason::Steady, sample);
        };
        let (first, second) = (trial.first, trial.second);
        let profiled_p99 = self.profile.mixes[mix].peak.measured.p99_ns;
        let comparison = match trial.add(sample) {
            Progress::Continues(setting) if setting == self.setting => {
                return self.step(setting, GuideReason::Steady, sample);
            }
            Progress::Continues(setting) => return self.step(setting, GuideReason::Trial, sample),
            Progress::Invalid => return self.end_trial(now, sample),
            Progress::Complete(comparison) => comparison,
        };
        self.trial = None;
        let is_verification = state.peak_p99.is_none() && second == self.peak;
        let is_kept = if is_verification {
            state.finish_verification(now, &comparison, self.peak, profiled_p99)
        } else {
            state.finish_refinement(now, &comparison, second, profiled_p99)
        };
        let reason =
            if is_verification != is_kept { GuideReason::Kept } else { GuideReason::Undone };
        let setting = state.setting;
        let compared = if is_verification { first } else { second };
        let measured =
            if is_verification { comparison.first.mean() } else { comparison.second.mean() };
        let predicted = self.profile.mixes[mix].point(compared).map(|point| point.measured);
        if is_kept && !is_verification {
            let point = Point { setting, indicators: sample.indicators, measured };
            self.profile.mixes[mix].set_point(point);
        }
        self.setting = setting;
        let mix = Some((mix, distance));
        let (measured, measured_before) = (Some(measured), None);
        GuideStep { setting, reason, mix, predicted, measured, measured_before }
    }
}

/// The maximum p99 of an acceptable setting in samples. `peak` is the p99 of the peak in samples, and `profiled` its
/// p99 in the profile.
fn largest_p99(peak: f64, profiled: f64) -> f64 {
    peak + (MAX_P99 - 1.0) * peak.max(profiled)
}

impl MixState {
    /// `peak` is the peak setting of this program. The mix may have been measured with fewer processors.
    fn new(mix: &Mix, peak: Setting, now: u64) -> Self {
        Self {
            setting: mix.better().map_or(peak, |point| point.setting),
            peak_p99: None,
            next_trial: now,
            pause: PAUSES.0,
            direction: 0,
            peak_until: 0,
        }
    }

    fn setting_at(&self, now: u64, peak: Setting) -> Setting {
        if now < self.peak_until { peak } else { self.setting }
    }

    /// Sets the time of the next comparison.
    fn wait(&mut self, now: u64, longer: bool) {
        self.next_trial = now.saturating_add(self.pause);
        self.pause = if longer { (2 * self.pause).min(PAUSES.1) } else { self.pause };
    }

    /// Begins the next comparison: with the peak if there was none, otherwise with a neighbour of this setting.
    fn trial(&mut self, peak: Setting, min: usize) -> Option<Trial> {
        if self.peak_p99.is_none() && self.setting != peak {
            return Some(Trial::new(self.setting, peak));
        }
        (0..DIRECTIONS).find_map(|_| {
            let direction = self.direction;
            self.direction = (direction + 1) % DIRECTIONS;
            let neighbour = self.setting.neighbour(direction, min, peak.active)?;
            Some(Trial::new(self.setting, neighbour))
        })
    }

    /// Processes the comparison of the choice with the peak, `setting`, whose p99 in the profile is `profiled_p99`.
    /// Returns `true` if the peak is better.
    fn finish_verification(
        &mut self,
        now: u64,
        comparison: &Comparison,
        setting: Setting,
        profiled_p99: f64,
    ) -> bool {
        let Comparison { first: choice, second: peak, slows } = comparison;
        let (chosen, other) = (choice.mean(), peak.mean());
        let is_late = chosen.p99_ns > largest_p99(other.p99_ns, profiled_p99)
            && choice.minima().p99_ns > peak.largest_p99();
        let is_undone = other.cost_ns < choice.minima().cost_ns || is_late || *slows;
        self.peak_p99 = Some(other.p99_ns);
        if is_undone {
            self.setting = setting;
        }
        self.wait(now, is_undone);
        is_undone
    }

    /// Processes the comparison of the current setting with its neighbour `setting`. Returns `true` if the neighbour is
    /// better.
    fn finish_refinement(
        &mut self,
        now: u64,
        comparison: &Comparison,
        setting: Setting,
        profiled_p99: f64,
    ) -> bool {
        let Comparison { first: this, second: other, .. } = comparison;
        let p99 = *self.peak_p99.get_or_insert(this.mean().p99_ns);
        let (mean, max_p99) = (other.mean(), largest_p99(p99, profiled_p99));
        let is_better = mean.cost_ns < this.minima().cost_ns && mean.p99_ns <= max_p99;
        if is_better {
            self.setting = setting;
            self.pause = (self.pause / 2).max(PAUSES.0);
        }
        self.wait(now, !is_better);
        is_better
    }
}

impl Mix {
    fn point(&self, setting: Setting) -> Option<&Point> {
        self.points.iter().chain([&self.peak]).find(|point| point.setting == setting)
    }

    /// Adds a point, or replaces the one of the same setting.
    fn set_point(&mut self, point: Point) {
        match self.points.iter_mut().find(|known| known.setting == point.setting) {
            Some(known) => *known = point,
            None => self.points.push(point),
        }
    }
}
