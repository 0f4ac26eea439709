//! Stall detection: reporting operations that run for longer than a limit without suspending.
//!
//! An operation cannot be preempted, and everything queued on its processor waits for it. The supervisor reads from
//! outside what each processor runs ([`Control::running`]), so detection costs the processors nothing. It polls twice
//! per limit, and ten times per limit while an operation stalls, which bounds the precision of the reported times. Each
//! stall is reported once while the operation is running and once when it has ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use phalanx_core::{Control, Running};

use super::tracing_events;

/// Default of [`Runtime::stall_threshold`](crate::Runtime::stall_threshold): 100 ms.
pub const DEFAULT_STALL_THRESHOLD: Duration = Duration::from_millis(100);

/// The longest time between two checks.
const MAX_PAUSE: Duration = Duration::from_secs(24 * 3600);

/// Number of stalled operations by processor and stage.
#[derive(Debug, Default)]
pub(crate) struct StallCounts {
    stages: usize,
    counts: Box<[AtomicU64]>,
}

impl StallCounts {
    pub(crate) fn new(control: &Control) -> Arc<Self> {
        let profile = control.profile();
        let (stages, processors) = (profile.stages.len(), profile.processors.len());
        let counts = (0..stages * processors).map(|_| AtomicU64::new(0)).collect();
        Arc::new(Self { stages, counts })
    }

    #[cfg(any(feature = "admin", test))]
    pub(crate) fn of(&self, processor: usize, stage: usize) -> u64 {
        self.counts[processor * self.stages + stage].load(Ordering::Relaxed)
    }

    fn add(&self, processor: usize, stage: usize) {
        self.counts[processor * self.stages + stage].fetch_add(1, Ordering::Relaxed);
    }
}

/// The operation that a processor was observed to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Observed {
    running: Running,
    /// The time when it was first observed.
    since: Instant,
    reported: bool,
}

/// One line of output.
#[derive(Debug, PartialEq, Eq)]
struct Report {
    processor: usize,
    running: Running,
    time: Duration,
    has_ended: bool,
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { processor, running, time, has_ended } = self;
        let verb = if *has_ended { "ran" } else { "has run" };
        let rest = if *has_ended { "" } else { " and does not suspend" };
        let time = time.as_millis();
        write!(f, "processor {processor}, {running} {verb} for {time} ms{rest}")
    }
}

/// The supervisor's record of all processors.
pub(crate) struct StallDetector {
    limit: Duration,
    observed: Vec<Option<Observed>>,
    names: Vec<&'static str>,
    counts: Arc<StallCounts>,
}

impl StallDetector {
    pub(crate) fn new(limit: Duration, control: &Control, counts: Arc<StallCounts>) -> Self {
        let profile = control.profile();
        let observed = vec![None; profile.processors.len()];
        Self { limit: limit.max(Duration::from_millis(1)), observed, names: profile.stages, counts }
    }

    /// Checks all processors. Returns the time of the next check.
    pub(crate) fn check(&mut self, control: &Control) -> Instant {
        let now = Instant::now();
        for (processor, running) in control.running().enumerate() {
            let running = running.map(|running| Observed { running, since: now, reported: false });
            self.observe(now, processor, running, |report| {
                super::report(&report);
                tracing_events::stalled(&report);
            });
        }
        let following = self.observed.iter().flatten().any(|observed| observed.reported);
        now + (self.limit / if following { 10 } else { 2 }).min(MAX_PAUSE)
    }

    /// Records one observation of one processor.
    fn observe(
        &mut self,
        now: Instant,
        processor: usize,
        running: Option<Observed>,
        mut report_line: impl FnMut(Report),
    ) {
        let before = &mut self.observed[processor];
        let same = |observed: &Observed| {
            running.is_some_and(|now| now.running.cohort == observed.running.cohort)
        };
        let report = |observed: &Observed, has_ended| Report {
            processor,
            running: observed.running,
            time: now - observed.since,
            has_ended,
        };
        match before {
            Some(observed) if same(observed) => {
                if !observed.reported && now - observed.since >= self.limit {
                    // Name the operation that runs now, because an earlier one of the same cohort may have been short.
                    observed.running = running.map_or(observed.running, |now| now.running);
                    observed.reported = true;
                    report_line(report(observed, false));
                    let stage = self.names.iter().position(|name| *name == observed.running.stage);
                    stage.into_iter().for_each(|stage| self.counts.add(processor, stage));
                }
            }
            _ => {
                if let Some(observed) = before.filter(|observed| observed.reported) {
                    report_line(report(&observed, true));
                }
                *before = running;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// The record of an operation, read by that operation.
    fn one_that_runs() -> Running {
        let mut graph = phalanx_core::Graph::new();
        let work = graph.shared("work", ());
        let (sender, reported) = std::sync::mpsc::channel();
        let runtime = crate::Runtime::new().processors(1).signals(false);
        let ran = runtime.run(graph, |start| {
            let (control, sender) = (start.control(), sender.clone());
            work.dispatch(move |_| async move {
                sender.send(control.running().next().unwrap().unwrap()).unwrap();
                control.drain();
            })?;
            Ok(())
        });
        ran.unwrap();
        reported.recv().unwrap()
    }

    #[test]
    fn reports_a_stall_once_and_its_end() {
        let mut graph = phalanx_core::Graph::new();
        graph.shared("front", ());
        graph.shared("work", ());
        let control = graph.build(2)[0].control();
        let sample = one_that_runs();
        let counts = StallCounts::new(&control);
        let mut detector = StallDetector::new(100 * MS, &control, counts.clone());
        let start = Instant::now();
        let mut reports = Vec::new();
        let mut observe = |at: u32, cohort: Option<u64>| {
            let now = start + at * MS;
            let observed = cohort.map(|cohort| {
                let mut running = sample;
                running.cohort = cohort;
                Observed { running, since: now, reported: false }
            });
            detector.observe(now, 1, observed, |report| reports.push((at, report.to_string())));
        };
        // Short cohorts; then one that stalls; then idle; then another stall.
        for (at, cohort) in
            [(0, Some(1)), (50, Some(2)), (100, None), (150, Some(3)), (200, Some(3))]
        {
            observe(at, cohort);
        }
        for at in [250, 260, 300, 390] {
            observe(at, Some(3));
        }
        observe(400, None);
        for (at, cohort) in [(450, Some(4)), (600, Some(4)), (650, Some(5)), (700, None)] {
            observe(at, cohort);
        }
        let reported = |at, rest: &str| (at, format!("processor 1, {sample} {rest}"));
        let expected = [
            reported(250, "has run for 100 ms and does not suspend"),
            reported(400, "ran for 250 ms"),
            reported(600, "has run for 150 ms and does not suspend"),
            reported(650, "ran for 200 ms"),
        ];
        assert_eq!(reports, expected);
        assert_eq!((counts.of(1, 1), counts.of(1, 0), counts.of(0, 1)), (2, 0, 0));
    }
}
