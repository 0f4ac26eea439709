//! Scaling: choosing the number of active processors from their loads.
//!
//! Fewer processors run larger cohorts and wake each other less often. So the law uses as few as can carry the load,
//! with some headroom:
//!
//! - **Up to the maximum**, immediately, if an active processor has not been idle for long and the mean load of the
//!   active processors is high, or if no active processor has been idle for long. This shows that the load is too high,
//!   but not by how much.
//! - **Up** to the number that the load needs, if the mean load of the active processors exceeds
//!   [`UP_LOAD`] for [`UP_AFTER`].
//! - **Down** to the number that the load needs, if fewer would have been enough for [`DOWN_AFTER`].
//!
//! The load is the sum over all processors, because inactive ones may still have work. It is averaged, because single
//! intervals vary.
//!
//! Three rules keep the number steady. A number that was too small for some load is tried again only when the load is
//! lower by [`MARGIN`], or after a pause. The pause doubles each time the number soon proves too small again. The
//! number does not change while the load is between the two thresholds.
//!
//! Two rules undo a step that was wrong. If a number proves too small within a pause after the step down to it, the
//! number before that step returns. If the load does not rise for [`BLIP_AFTER`] after a step up by saturation, the
//! saturation was a short one by chance, and the number before that step returns.
//!
//! A processor whose load cannot be divided, because it is caused by one key or one connection, is a *bottleneck*
//! ([`ProcessorLoad::indivisible`]). Adding a processor would not help it, so the law ignores bottlenecks and their
//! load, and decides by the other processors.
//!
//! The asymmetric delays follow IX (Prekas et al., SoCC 2015), and remembering the load at which a number was too small
//! follows Arachne (Qin et al., OSDI 2018). The law uses no clock: the caller reports each interval, which may have any
//! length.

/// The mean load of active processors, in thousandths, above which more are needed.
const UP_LOAD: f64 = 930.0;
/// The target of the mean load when the number changes.
const TARGET_LOAD: f64 = 780.0;
/// The time above [`UP_LOAD`] before a step up, in nanoseconds.
const UP_AFTER: u64 = 200_000_000;
/// The time for which fewer processors must have been enough before a step down, in nanoseconds.
const DOWN_AFTER: u64 = 4_000_000_000;
/// The time after a step up by saturation in which the load must rise, in nanoseconds. Otherwise the step is undone.
const BLIP_AFTER: u64 = 1_000_000_000;
/// The time over which the load is averaged, in nanoseconds.
const SMOOTHING: f64 = 300e6;
/// The mean load above which a processor that is never idle leads to a step up to all processors. Below it, the other
/// processors have room.
const SATURATED_LOAD: f64 = 900.0;
/// If the mean load was at least this before a saturation, the load has grown slowly.
const SLOW_LOAD: f64 = 750.0;
/// The fraction by which the load must fall before a number that was too small is tried again.
const MARGIN: f64 = 0.09;
/// The initial and the maximum pause before a number that was too small is tried again at the same load, in
/// nanoseconds.
const PAUSES: (u64, u64) = (30_000_000_000, 960_000_000_000);
/// The load of a processor, in thousandths, from which it may be a bottleneck.
const BOTTLENECK_LOAD: f64 = 500.0;
/// The indivisible fraction of the load from which a processor is a bottleneck.
const BOTTLENECK_PART: f64 = 0.7;

/// The load of a processor in one interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessorLoad {
    /// The fraction of the interval in which it was awake, in thousandths.
    pub load: u32,
    /// The fraction of the interval, in thousandths, that it spent on one key, connection or exclusive stage. Another
    /// processor cannot take over a part of this load.
    pub indivisible: u32,
    /// Whether it has not been idle for much longer than an operation takes.
    pub is_saturated: bool,
}

impl ProcessorLoad {
    /// Whether most of its load cannot be divided, so that additional processors do not help it.
    pub fn is_bottleneck(&self) -> bool {
        is_bottleneck(self.load.into(), self.indivisible.into())
    }
}

fn is_bottleneck(load: f64, indivisible: f64) -> bool {
    load >= BOTTLENECK_LOAD && indivisible >= BOTTLENECK_PART * load
}

/// The reason why the number of active processors was changed or kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScalingReason {
    /// The load needs this number.
    Steady,
    /// A processor has not been idle for long.
    Saturated,
    /// The mean load of the active processors was too high.
    Load,
    /// A smaller number has been enough for a while.
    Idle,
    /// A saturated processor has a load that cannot be divided.
    Bottleneck,
}

impl ScalingReason {
    /// The reason as one lower-case word.
    pub fn as_str(self) -> &'static str {
        match self {
            ScalingReason::Steady => "steady",
            ScalingReason::Saturated => "saturated",
            ScalingReason::Load => "load",
            ScalingReason::Idle => "idle",
            ScalingReason::Bottleneck => "bottleneck",
        }
    }
}

/// A decision of the law.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScalingStep {
    /// The new number of active processors.
    pub active: usize,
    /// The reason for the decision.
    pub reason: ScalingReason,
    /// The number of processors that the load would keep fully busy.
    pub demand: f64,
    /// The number of active processors whose load cannot be divided.
    pub bottlenecks: usize,
}

/// A number of active processors that was too small.
#[derive(Clone, Copy, Default)]
struct TooSmall {
    /// The load for which it was too small, in thousandths of one processor. Zero if it never was.
    load: f64,
    /// The time from which the number may be tried again.
    until: u64,
    pause: u64,
}

/// The last change of the number of active processors.
#[derive(Clone, Copy)]
struct LastStep {
    at: u64,
    /// The number before it.
    from: usize,
    /// The load of all processors at that time, in thousandths of one processor.
    load: f64,
    /// Whether it was a step up by saturation, and the load has not risen since then.
    is_blip: bool,
}

/// The averages of a processor's load and of its indivisible part, in thousandths.
#[derive(Clone, Copy, Default)]
struct Average {
    load: f64,
    indivisible: f64,
}

impl Average {
    fn add(&mut self, part: f64, processor: &ProcessorLoad) {
        self.load += (f64::from(processor.load) - self.load) * part;
        self.indivisible += (f64::from(processor.indivisible) - self.indivisible) * part;
    }

    fn is_bottleneck(&self) -> bool {
        is_bottleneck(self.load, self.indivisible)
    }
}

/// Detects that the mean load of the active processors stays too high: above 93 % for 200 ms.
#[derive(Clone, Copy, Debug, Default)]
pub struct HighLoad {
    since: Option<u64>,
}

impl HighLoad {
    /// Processes the load at `now`, a time in nanoseconds. `load` is the total load of all processors, in thousandths
    /// of one, and `capacity` is the number of active processors, both without bottlenecks. Returns whether the load
    /// has been too high for long enough.
    pub fn update(&mut self, now: u64, load: f64, capacity: usize) -> bool {
        if load <= UP_LOAD * capacity as f64 || capacity == 0 {
            self.since = None;
            return false;
        }
        now.saturating_sub(*self.since.get_or_insert(now)) >= UP_AFTER
    }
}

/// The control law for the number of active processors, with its state between two intervals. The law uses as few
/// processors as can carry the load.
pub struct Scaling {
    min: usize,
    max: usize,
    active: usize,
    /// The averages, by processor.
    averages: Vec<Average>,
    /// The end of the last interval.
    at: u64,
    last: LastStep,
    high: HighLoad,
    /// The time since which fewer processors would be enough, and the highest loads since then: the divisible load, and
    /// the load of all processors.
    low_since: u64,
    low_peak: (f64, f64),
    /// Indexed by the number of active processors minus one.
    too_small: Vec<TooSmall>,
}

/// Whether the `active` processors, whose loads have this sum, are saturated: at least one of them if their mean load
/// is high, otherwise all of them. The load is measured over a whole interval, which may have begun before a burst.
pub fn are_saturated<'p>(
    load: f64,
    active: impl Iterator<Item = &'p ProcessorLoad> + Clone,
) -> bool {
    let mut each = active.clone();
    if load >= SATURATED_LOAD * active.count() as f64 {
        each.any(|processor| processor.is_saturated)
    } else {
        each.all(|processor| processor.is_saturated)
    }
}

impl Scaling {
    /// Creates a law that chooses between `min` and `max` processors. It begins with `max` at the time `now`, in
    /// nanoseconds.
    pub fn new(min: usize, max: usize, now: u64) -> Self {
        let max = max.max(1);
        Self {
            min: min.clamp(1, max),
            max,
            active: max,
            averages: vec![Average::default(); max],
            at: now,
            last: LastStep { at: now, from: max, load: 0.0, is_blip: false },
            high: HighLoad::default(),
            low_since: now,
            low_peak: (0.0, 0.0),
            too_small: vec![TooSmall::default(); max + 1],
        }
    }

    /// The number of active processors.
    pub fn active(&self) -> usize {
        self.active
    }

    /// Ends an interval at `now`, a time in nanoseconds. `processors` are the loads of all processors, the active ones
    /// first.
    pub fn interval_over(&mut self, now: u64, processors: &[ProcessorLoad]) -> ScalingStep {
        let length = now.saturating_sub(self.at).max(1) as f64;
        self.at = now;
        let part = 1.0 - (-length / SMOOTHING).exp();
        for (average, processor) in self.averages.iter_mut().zip(processors) {
            average.add(part, processor);
        }
        let is_bottleneck = |index: usize| self.averages[index].is_bottleneck();
        let bottlenecks = (0..self.active).filter(|index| is_bottleneck(*index)).count();
        let all = 0..self.max.min(processors.len());
        let divisible: Vec<usize> = all.filter(|index| !is_bottleneck(*index)).collect();
        let average: f64 = divisible.iter().map(|index| self.averages[*index].load).sum();
        let total: f64 = self.averages.iter().map(|average| average.load).sum();
        let load: f64 = divisible.iter().map(|index| f64::from(processors[*index].load)).sum();
        let capacity = self.active - bottlenecks;
        let active = divisible.iter().take_while(|index| **index < self.active);
        let is_saturated = are_saturated(load, active.map(|index| &processors[*index]));

        let (to, reason) = if is_saturated && self.active < self.max {
            (self.saturated(now, average, capacity as f64), ScalingReason::Saturated)
        } else if self.is_high(now, average, capacity) {
            (self.needed(average, bottlenecks).max(self.active + 1), ScalingReason::Load)
        } else if let Some(fewer) = self.fewer(now, average, total, bottlenecks) {
            (fewer, ScalingReason::Idle)
        } else if bottlenecks > 0 {
            (self.active, ScalingReason::Bottleneck)
        } else {
            (self.active, ScalingReason::Steady)
        };
        let is_saturation = reason == ScalingReason::Saturated;
        let last = LastStep { at: now, from: self.active, load: total, is_blip: is_saturation };
        // The average may not contain the burst yet.
        let load = if is_saturation { total.max(TARGET_LOAD * capacity as f64) } else { total };
        self.step(last, to.clamp(self.min, self.max), load);
        ScalingStep { active: self.active, reason, demand: total / 1000.0, bottlenecks }
    }

    /// Whether `load` has been too high for `capacity` processors for a while.
    fn is_high(&mut self, now: u64, load: f64, capacity: usize) -> bool {
        self.high.update(now, load, capacity) && self.active < self.max
    }

    /// The number of processors after a saturation, when the true load is unknown. If the load has grown slowly, a few
    /// more are enough: those before the last step, if it was a step down not long ago.
    fn saturated(&self, now: u64, load: f64, capacity: f64) -> usize {
        let is_slow = load >= SLOW_LOAD * capacity;
        match now - self.last.at {
            age if !is_slow || age < UP_AFTER => self.max,
            age if age < PAUSES.0 && self.last.from > self.active => self.last.from,
            _ => self.active + 1 + self.active / 4,
        }
    }

    /// The number of processors for this load, and one for each bottleneck.
    fn needed(&self, load: f64, bottlenecks: usize) -> usize {
        ((load / TARGET_LOAD).ceil() as usize + bottlenecks).clamp(self.min, self.max)
    }

    /// A smaller number of processors that would have been enough for a while, if there is one.
    fn fewer(&mut self, now: u64, load: f64, total: f64, bottlenecks: usize) -> Option<usize> {
        let (peak, total_peak) = (self.low_peak.0.max(load), self.low_peak.1.max(total));
        let may_do = |number: &usize| {
            let TooSmall { load, until, .. } = self.too_small[*number];
            now >= until || total_peak < (1.0 - MARGIN) * load
        };
        let fewer = (self.needed(peak, bottlenecks)..self.active).find(may_do);
        if fewer.is_none() {
            (self.low_since, self.low_peak) = (now, (load, total));
            return None;
        }
        self.low_peak = (peak, total_peak);
        let last = &mut self.last;
        last.is_blip &= total_peak <= (1.0 + MARGIN) * last.load;
        match now - self.low_since {
            age if last.is_blip && age >= BLIP_AFTER => fewer.map(|fewer| fewer.max(last.from)),
            age => fewer.filter(|_| age >= DOWN_AFTER),
        }
    }

    fn step(&mut self, last: LastStep, to: usize, load: f64) {
        if to == self.active {
            return;
        }
        let now = last.at;
        if to > self.active {
            for number in &mut self.too_small[..=self.active] {
                // The number proved too small again soon after its pause.
                let is_repeated =
                    number.pause > 0 && now < number.until.saturating_add(number.pause);
                number.pause =
                    if is_repeated { (2 * number.pause).min(PAUSES.1) } else { PAUSES.0 };
                *number = TooSmall { load, until: now + number.pause, pause: number.pause };
            }
        }
        (self.active, self.last) = (to, last);
        (self.high, self.low_since, self.low_peak) = (HighLoad::default(), now, (0.0, 0.0));
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
