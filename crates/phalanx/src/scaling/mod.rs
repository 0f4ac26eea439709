//! Automatic placement: the supervisor sets the number of active processors according to a control law
//! ([`phalanx_core::Scaling`]).
//!
//! It checks the loads every 100 ms while a processor is awake, and immediately when one is saturated, which the
//! processor itself detects ([`crate::io::SaturationProbe`]). Decisions are recorded for the admin pages (`decisions`).
//!
//! With a profile (`profile_file`), the law is [`phalanx_core::Guide`] (`guided`), which sees samples of half a second
//! (`totals`).

mod decisions;
mod guided;
#[cfg(feature = "admin")]
mod profile_file;
mod profiled;
mod totals;

use std::sync::Arc;
use std::time::{Duration, Instant};

use phalanx_core::{Control, Phase, ProcessorLoad, Scaling};

pub(crate) use self::decisions::Automatic;
use self::guided::Guided;
#[cfg(feature = "admin")]
pub use self::profile_file::{ProfileError, ProfileFile};
pub use self::profiled::PROFILE_VARIABLE;
pub(crate) use self::profiled::Profiled;
pub use self::totals::Totals;
use crate::cores::ActiveProcessors;
use crate::io::{LoadSample, Placement};

/// The time between two checks of the loads.
const INTERVAL: Duration = Duration::from_millis(100);
/// The minimum time between two checks, because a shorter interval says little.
const MIN_INTERVAL: Duration = Duration::from_millis(3);

/// Whether the runtime adjusts the number of [active processors](ActiveProcessors) automatically.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlacementMode {
    /// The runtime does not change the number; the program may.
    #[default]
    Off,
    /// The runtime only records the decisions that it would make.
    Advise,
    /// The runtime adjusts the number.
    On,
}

impl PlacementMode {
    /// The mode as one lower-case word.
    pub fn as_str(self) -> &'static str {
        match self {
            PlacementMode::Off => "off",
            PlacementMode::Advise => "advise",
            PlacementMode::On => "on",
        }
    }
}

/// The supervisor's part of automatic placement.
pub(crate) struct Scaler {
    law: Scaling,
    /// `None` without a profile; otherwise it decides instead of the law.
    guided: Option<Guided>,
    control: Control,
    active: ActiveProcessors,
    placement: Arc<Placement>,
    automatic: Arc<Automatic>,
    samples: Vec<LoadSample>,
    epoch: Instant,
    sampled_at: Instant,
    is_urgent: bool,
}

impl Scaler {
    /// `epoch` is the start of the program, and `admin` the number of the stage of its admin pages.
    pub(crate) fn new(
        automatic: Arc<Automatic>,
        control: &Control,
        active: ActiveProcessors,
        placement: Arc<Placement>,
        epoch: Instant,
        admin: Option<usize>,
    ) -> Self {
        let all = active.all();
        let guided = automatic
            .profile
            .clone()
            .map(|profile| Guided::new(profile, automatic.mode, automatic.min, &active, admin));
        Self {
            guided,
            law: Scaling::new(automatic.min, all, 0),
            control: control.clone(),
            active,
            placement,
            automatic,
            samples: vec![LoadSample::default(); all],
            epoch,
            sampled_at: epoch,
            is_urgent: false,
        }
    }

    /// Records that a processor is saturated, so that the next sample is taken soon.
    pub(crate) fn sample_soon(&mut self) {
        let active = match self.guided {
            Some(_) => self.active.count(),
            None => self.law.active(),
        };
        self.is_urgent = active < self.active.all();
    }

    /// The time of the next sample.
    pub(crate) fn next(&self) -> Instant {
        self.sampled_at + if self.is_urgent { MIN_INTERVAL } else { INTERVAL }
    }

    /// Checks the loads if it is time.
    pub(crate) fn sample_if_due(&mut self, now: Instant) {
        if self.next() <= now && self.control.phase() == Phase::Running {
            self.sample(now);
        }
    }

    fn sample(&mut self, now: Instant) {
        (self.sampled_at, self.is_urgent) = (now, false);
        let at = now - self.epoch;
        let loads: Vec<_> = (0..self.samples.len()).map(|index| self.load(index, at)).collect();
        if let Some(guided) = &mut self.guided {
            let (control, placement) = (&self.control, &self.placement);
            let guidance = guided.sample(at, &loads, control, placement, &self.active);
            if let Some(guidance) = guidance {
                self.automatic.record_guidance(at, &guidance, &loads);
            }
            return;
        }
        let before = self.law.active();
        let step = self.law.interval_over(at.as_nanos() as u64, &loads);
        if self.automatic.mode == PlacementMode::On {
            self.active.set(step.active);
        }
        self.automatic.record(at, before, &step, &loads);
    }

    fn load(&mut self, index: usize, at: Duration) -> ProcessorLoad {
        let parked_ns = self.control.parked(index, at.as_nanos() as u64);
        let before = self.samples[index];
        let sample = before.next(at, before.age(at), parked_ns);
        self.samples[index] = sample;
        let load = sample.load();
        // The load of a single connection cannot be divided. The runtime does not know about other indivisible loads,
        // such as hot keys.
        let is_single = self.placement.has_single_connection(index);
        ProcessorLoad {
            load,
            indivisible: if is_single { load } else { 0 },
            is_saturated: self.automatic.saturated.is_set(index),
        }
    }
}
