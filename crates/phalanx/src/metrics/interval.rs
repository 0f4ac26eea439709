//! Rates between two snapshots, for the live page and `phalanx top`.
//!
//! The rates are a pure function of two snapshots, so both views show the same numbers.

use phalanx_core::Histogram;

use super::snapshot::{
    CounterSnapshot, HistogramSnapshot, Name, ProcessorSnapshot, Snapshot, StageSnapshot,
};

/// The increases of the program's counters. A new counter was zero before.
fn counters_since(before: Option<&Snapshot>, after: &Snapshot) -> Vec<u64> {
    let increase = |(at, counter): (usize, &CounterSnapshot)| {
        let same =
            |other: &&CounterSnapshot| other.name == counter.name && other.label == counter.label;
        let old = before.and_then(|before| {
            // Counters keep their positions unless members of a family are added.
            before.counters.get(at).filter(same).or_else(|| before.counters.iter().find(same))
        });
        counter.count.saturating_sub(old.map_or(0, |old| old.count))
    };
    after.counters.iter().enumerate().map(increase).collect()
}

/// The increases of the program's histograms. A new histogram was empty before.
fn times_since(before: Option<&Snapshot>, after: &Snapshot) -> Vec<Histogram> {
    let increase = |times: &HistogramSnapshot| {
        let old = before.and_then(|old| old.times.iter().find(|old| old.name == times.name));
        let old = old.map_or(Histogram::default(), |old| Histogram(old.times.buckets));
        Histogram(times.times.buckets).since(&old)
    };
    after.times.iter().map(increase).collect()
}

/// The difference of two snapshots of a program.
///
/// ```no_run
/// # let (earlier, later): (phalanx::metrics::Snapshot, phalanx::metrics::Snapshot) = unimplemented!();
/// let interval = phalanx::metrics::Interval::between(&earlier, &later).expect("of the same run");
/// for (name, stage) in interval.stages.iter().zip(&interval.total().stages) {
///     println!("{name}: {} operations/s", stage.per_second(stage.ran));
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Interval {
    /// Length of the interval.
    pub seconds: f64,
    /// Stage names in wavefront order.
    pub stages: Vec<Name>,
    /// By processor.
    pub processors: Vec<ProcessorInterval>,
    /// The numbers of operations that stages started or resumed on each other. Zero counts are omitted.
    pub arcs: Vec<ArcInterval>,
    /// Increases of the program's own counters, in the order of [`Snapshot::counters`].
    pub counters: Vec<u64>,
    /// The times that the program recorded, in the order of [`Snapshot::times`].
    pub times: Vec<Histogram>,
}

/// The values of one processor, or the sum over all processors.
#[derive(Clone, Debug, Default)]
pub struct ProcessorInterval {
    /// Fraction of the time in cohorts, from 0 to 1.
    pub utilisation: f64,
    /// Fraction of the time asleep, from 0 to 1.
    pub asleep: f64,
    /// System calls of the driver.
    pub system_calls: u64,
    /// Live operations at the end.
    pub operations: u64,
    /// By stage.
    pub stages: Vec<StageInterval>,
}

/// The values of one stage on one processor, or the sum over all processors. Fields named `max` cover the time since
/// the program's start, because maxima cannot be subtracted. All other fields refer to the interval or its end.
#[derive(Clone, Debug, Default)]
pub struct StageInterval {
    /// Length of the interval.
    pub seconds: f64,
    /// Number of processors in the sum.
    pub processors: usize,
    /// Operations queued when the last cohort started; zero if there was none.
    pub queue_length: u64,
    /// The longest queue found by a cohort.
    pub queue_length_max: u64,
    /// Sum of the queue lengths found by cohorts.
    pub queue_length_sum: f64,
    /// Operations run: started or resumed.
    pub ran: u64,
    /// Operations started.
    pub started: u64,
    /// Operations resumed.
    pub resumed: u64,
    /// Number of suspensions.
    pub suspended: u64,
    /// Operations completed.
    pub completed: u64,
    /// Operations that panicked.
    pub panicked: u64,
    /// Operations shed.
    pub shed: u64,
    /// Operations suspended at the end.
    pub suspended_now: u64,
    /// Cohorts run.
    pub cohorts: u64,
    /// The largest cohort.
    pub cohort_max: u64,
    /// Sum of the waits before starts, in nanoseconds.
    pub started_wait_ns: u64,
    /// The longest of these waits.
    pub started_wait_max_ns: u64,
    /// Sum of the waits before resumptions, in nanoseconds.
    pub resumed_wait_ns: u64,
    /// The longest of these waits.
    pub resumed_wait_max_ns: u64,
    /// Nanoseconds in cohorts.
    pub run_ns: u64,
    /// The longest run time, where each operation counts with the mean of its cohort.
    pub run_max_ns: u64,
    /// Waits by bucket.
    pub waits: Histogram,
    /// Run times by bucket.
    pub runs: Histogram,
}

/// The operations that one stage of a processor started or resumed on another.
#[derive(Clone, Debug, PartialEq)]
pub struct ArcInterval {
    /// Processor and stage; `None` for I/O, timers and other threads.
    pub from: Option<(usize, usize)>,
    /// Processor and stage.
    pub to: (usize, usize),
    /// Number of operations.
    pub count: u64,
}

fn mean(total: u64, count: u64) -> f64 {
    if count == 0 { 0.0 } else { total as f64 / count as f64 }
}

impl StageInterval {
    fn new(seconds: f64, before: Option<&StageSnapshot>, after: &StageSnapshot) -> Self {
        let since = |figure: fn(&StageSnapshot) -> u64| {
            figure(after).saturating_sub(before.map_or(0, figure))
        };
        let times = |figure: fn(&StageSnapshot) -> Histogram| match before {
            None => figure(after),
            Some(before) => figure(after).since(&figure(before)),
        };
        Self {
            seconds,
            processors: 1,
            queue_length: if since(|s| s.cohorts) > 0 { after.queue_length } else { 0 },
            queue_length_max: after.queue_length_max,
            queue_length_sum: {
                let sum = |s: &StageSnapshot| s.queue_length_mean * s.cohorts as f64;
                (sum(after) - before.map_or(0.0, sum)).max(0.0)
            },
            ran: since(|s| s.started.count + s.resumed.count),
            started: since(|s| s.started.count),
            resumed: since(|s| s.resumed.count),
            suspended: since(|s| s.suspended),
            completed: since(|s| s.completed.count),
            panicked: since(|s| s.panicked),
            shed: since(|s| s.shed.values().sum()),
            suspended_now: after.suspended_now,
            cohorts: since(|s| s.cohorts),
            cohort_max: after.cohort_max,
            started_wait_ns: since(|s| s.started.total_ns),
            started_wait_max_ns: after.started.max_ns,
            resumed_wait_ns: since(|s| s.resumed.total_ns),
            resumed_wait_max_ns: after.resumed.max_ns,
            run_ns: since(|s| s.completed.total_ns),
            run_max_ns: after.completed.max_ns,
            waits: times(|s| Histogram(s.waits.buckets)),
            runs: times(|s| Histogram(s.runs.buckets)),
        }
    }

    fn plus(&self, other: &Self) -> Self {
        Self {
            seconds: other.seconds,
            processors: self.processors + other.processors,
            queue_length: self.queue_length + other.queue_length,
            queue_length_max: self.queue_length_max.max(other.queue_length_max),
            queue_length_sum: self.queue_length_sum + other.queue_length_sum,
            ran: self.ran + other.ran,
            started: self.started + other.started,
            resumed: self.resumed + other.resumed,
            suspended: self.suspended + other.suspended,
            completed: self.completed + other.completed,
            panicked: self.panicked + other.panicked,
            shed: self.shed + other.shed,
            suspended_now: self.suspended_now + other.suspended_now,
            cohorts: self.cohorts + other.cohorts,
            cohort_max: self.cohort_max.max(other.cohort_max),
            started_wait_ns: self.started_wait_ns + other.started_wait_ns,
            started_wait_max_ns: self.started_wait_max_ns.max(other.started_wait_max_ns),
            resumed_wait_ns: self.resumed_wait_ns + other.resumed_wait_ns,
            resumed_wait_max_ns: self.resumed_wait_max_ns.max(other.resumed_wait_max_ns),
            run_ns: self.run_ns + other.run_ns,
            run_max_ns: self.run_max_ns.max(other.run_max_ns),
            waits: self.waits.plus(&other.waits),
            runs: self.runs.plus(&other.runs),
        }
    }

    /// A count as a rate per second.
    pub fn per_second(&self, count: u64) -> f64 {
        if self.seconds > 0.0 { count as f64 / self.seconds } else { 0.0 }
    }

    /// Mean queue length found by a cohort.
    pub fn queue_length_mean(&self) -> f64 {
        if self.cohorts == 0 { 0.0 } else { self.queue_length_sum / self.cohorts as f64 }
    }

    /// Mean operations per cohort.
    pub fn cohort_mean(&self) -> f64 {
        // `ran` also counts later replies of a cohort operation, and direct calls, which have no time of their own.
        mean(self.waits.count(), self.cohorts)
    }

    /// Mean nanoseconds from invocation to start.
    pub fn started_wait_mean_ns(&self) -> f64 {
        mean(self.started_wait_ns, self.started)
    }

    /// Mean nanoseconds from wake-up to resumption.
    pub fn resumed_wait_mean_ns(&self) -> f64 {
        mean(self.resumed_wait_ns, self.resumed)
    }

    /// Mean nanoseconds queued before a start or resumption.
    pub fn wait_mean_ns(&self) -> f64 {
        mean(self.started_wait_ns + self.resumed_wait_ns, self.waits.count())
    }

    /// The longest of these waits, in nanoseconds.
    pub fn wait_max_ns(&self) -> u64 {
        self.started_wait_max_ns.max(self.resumed_wait_max_ns)
    }

    /// Mean nanoseconds of a run in a cohort.
    pub fn run_mean_ns(&self) -> f64 {
        mean(self.run_ns, self.runs.count())
    }

    /// Fraction of the processors' time for which the stage ran, from 0 to 1.
    pub fn utilisation(&self) -> f64 {
        let time = self.seconds * 1e9 * self.processors.max(1) as f64;
        if time > 0.0 { (self.run_ns as f64 / time).min(1.0) } else { 0.0 }
    }
}

impl Interval {
    /// The interval from `before` to `after`. Returns `None` if they are not from the same run of a program.
    pub fn between(before: &Snapshot, after: &Snapshot) -> Option<Self> {
        let same = before.stages == after.stages
            && before.processors.len() == after.processors.len()
            && before.run == after.run
            && before.uptime_ns <= after.uptime_ns;
        same.then(|| Self::new(Some(before), after))
    }

    /// The interval from the program's start to `after`.
    pub fn since_start(after: &Snapshot) -> Self {
        Self::new(None, after)
    }

    fn new(before: Option<&Snapshot>, after: &Snapshot) -> Self {
        let start = before.map_or(0, |before| before.uptime_ns);
        let seconds = (after.uptime_ns - start) as f64 / 1e9;
        let share =
            |ns: u64| if seconds > 0.0 { (ns as f64 / 1e9 / seconds).min(1.0) } else { 0.0 };
        let earlier = |index: usize| before.map(|before| &before.processors[index]);
        let processors = after.processors.iter().enumerate().map(|(index, after)| {
            let before = earlier(index);
            let since = |figure: fn(&ProcessorSnapshot) -> u64| {
                figure(after).saturating_sub(before.map_or(0, figure))
            };
            let stages = after.stages.iter().enumerate().map(|(stage, after)| {
                StageInterval::new(seconds, before.and_then(|b| b.stages.get(stage)), after)
            });
            ProcessorInterval {
                utilisation: share(since(|p| p.busy_ns)),
                asleep: share(since(|p| p.parked_ns)),
                system_calls: since(|p| p.system_calls),
                operations: after.operations,
                stages: stages.collect(),
            }
        });
        let arcs = after.processors.iter().enumerate();
        let arcs = arcs.flat_map(|(index, p)| arcs_since(&after.stages, earlier(index), p));
        Self {
            seconds,
            processors: processors.collect(),
            arcs: arcs.collect(),
            counters: counters_since(before, after),
            times: times_since(before, after),
            stages: after.stages.clone(),
        }
    }

    /// The sum over all processors.
    pub fn total(&self) -> ProcessorInterval {
        let count = self.processors.len().max(1) as f64;
        let stages = (0..self.stages.len()).map(|stage| {
            let each = self.processors.iter().filter_map(|p| p.stages.get(stage));
            each.fold(StageInterval::default(), |sum, stage| sum.plus(stage))
        });
        ProcessorInterval {
            utilisation: self.processors.iter().map(|p| p.utilisation).sum::<f64>() / count,
            asleep: self.processors.iter().map(|p| p.asleep).sum::<f64>() / count,
            system_calls: self.processors.iter().map(|p| p.system_calls).sum(),
            operations: self.processors.iter().map(|p| p.operations).sum(),
            stages: stages.collect(),
        }
    }

    /// The interval with all processors summed into one.
    #[must_use]
    pub fn merged(&self) -> Self {
        let mut arcs: Vec<ArcInterval> = Vec::new();
        for arc in &self.arcs {
            let (from, to) = (arc.from.map(|(_, stage)| (0, stage)), (0, arc.to.1));
            match arcs.iter_mut().find(|sum| sum.from == from && sum.to == to) {
                Some(sum) => sum.count += arc.count,
                None => arcs.push(ArcInterval { from, to, count: arc.count }),
            }
        }
        Self { processors: vec![self.total()], arcs, ..self.clone() }
    }
}

fn arcs_since(
    names: &[Name],
    before: Option<&ProcessorSnapshot>,
    after: &ProcessorSnapshot,
) -> Vec<ArcInterval> {
    let number = |name: &Name| names.iter().position(|stage| stage == name);
    let calls = after.arcs.iter().filter_map(|arc| {
        let same = |old: &&super::snapshot::ArcSnapshot| {
            old.from == arc.from && old.from_processor == arc.from_processor && old.to == arc.to
        };
        let old = before.and_then(|before| before.arcs.iter().find(same));
        let count = arc.count.saturating_sub(old.map_or(0, |old| old.count));
        let from = arc.from.as_ref().and_then(number);
        let from = from.map(|stage| (arc.from_processor.unwrap_or(after.processor), stage));
        let to = (after.processor, number(&arc.to)?);
        (count > 0).then_some(ArcInterval { from, to, count })
    });
    calls.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_contain_only_what_was_measured() {
        let mut two = Histogram::default();
        two.0[0] = 2;
        // Two queries and the later reply of one, and a direct call.
        let stage = StageInterval {
            ran: 4,
            started: 3,
            resumed: 1,
            cohorts: 1,
            started_wait_ns: 600,
            run_ns: 200,
            waits: two,
            runs: two,
            ..StageInterval::default()
        };
        let means = [stage.cohort_mean(), stage.wait_mean_ns(), stage.run_mean_ns()];
        assert_eq!(means, [2.0, 300.0, 100.0]);
        assert_eq!(stage.plus(&stage).run_mean_ns(), 100.0);
    }
}
