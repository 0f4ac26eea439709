//! Long operations: what keeps a processor from all else for longer than a limit is told, once while
//! it runs and once when it has ended.
//!
//! An operation runs until it suspends; nobody can interrupt it, and all that is queued on its
//! processor waits. The supervisor looks from outside at what each processor runs
//! ([`Control::running`]); the processors do nothing for it. It looks twice in each limit, and ten
//! times while it follows a long one, so its figures are that exact.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use phalanx_core::{Control, Running};

/// An operation that runs longer is told, unless the runtime is told otherwise.
pub const DEFAULT_STALL_THRESHOLD: Duration = Duration::from_millis(100);

/// How many long operations each stage had on each processor.
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

/// What a processor was seen to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    running: Running,
    /// When it was first seen.
    since: Instant,
    told: bool,
}

/// Something to tell.
#[derive(Debug, PartialEq, Eq)]
struct Report {
    processor: usize,
    running: Running,
    time: Duration,
    ended: bool,
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { processor, running, time, ended } = self;
        let verb = if *ended { "ran" } else { "has run" };
        let rest = if *ended { "" } else { " and does not suspend" };
        let time = time.as_millis();
        write!(f, "processor {processor}, {running} {verb} for {time} ms{rest}")
    }
}

/// The supervisor's part.
pub(crate) struct StallDetector {
    limit: Duration,
    seen: Vec<Option<Seen>>,
    names: Vec<&'static str>,
    counts: Arc<StallCounts>,
}

impl StallDetector {
    pub(crate) fn new(limit: Duration, control: &Control, counts: Arc<StallCounts>) -> Self {
        let profile = control.profile();
        let seen = vec![None; profile.processors.len()];
        Self { limit: limit.max(Duration::from_millis(1)), seen, names: profile.stages, counts }
    }

    /// Looks at all processors. Returns when to look again.
    pub(crate) fn look(&mut self, control: &Control) -> Instant {
        let now = Instant::now();
        for (processor, running) in control.running().into_iter().enumerate() {
            let running = running.map(|running| Seen { running, since: now, told: false });
            self.note(now, processor, running, |report| {
                // Nobody may be there to read it.
                let _ = writeln!(std::io::stderr(), "phalanx: {report}");
                crate::tracing_events::long_operation(&report);
            });
        }
        let following = self.seen.iter().flatten().any(|seen| seen.told);
        now + self.limit / if following { 10 } else { 2 }
    }

    /// One look at one processor.
    fn note(
        &mut self,
        now: Instant,
        processor: usize,
        running: Option<Seen>,
        mut tell: impl FnMut(Report),
    ) {
        let before = &mut self.seen[processor];
        let same =
            |seen: &Seen| running.is_some_and(|now| now.running.cohort == seen.running.cohort);
        let report = |seen: &Seen, ended| Report {
            processor,
            running: seen.running,
            time: now - seen.since,
            ended,
        };
        match before {
            Some(seen) if same(seen) => {
                if !seen.told && now - seen.since >= self.limit {
                    // The one that runs now, should the first have been a short one.
                    seen.running = running.map_or(seen.running, |now| now.running);
                    seen.told = true;
                    tell(report(seen, false));
                    let stage = self.names.iter().position(|name| *name == seen.running.stage);
                    stage.into_iter().for_each(|stage| self.counts.add(processor, stage));
                }
            }
            _ => {
                if let Some(seen) = before.filter(|seen| seen.told) {
                    tell(report(&seen, true));
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

    /// What a processor runs, seen by the operation that it runs.
    fn one_that_runs() -> Running {
        let mut graph = phalanx_core::Graph::new();
        let work = graph.shared("work", ());
        let (tell, told) = std::sync::mpsc::channel();
        let runtime = crate::Runtime::new().processors(1).pin(false).signals(false);
        let ran = runtime.run(graph, |start| {
            let (control, tell) = (start.control(), tell.clone());
            work.dispatch(move |_| async move {
                tell.send(control.running()[0].unwrap()).unwrap();
                control.drain();
            })?;
            Ok(())
        });
        ran.unwrap();
        told.recv().unwrap()
    }

    #[test]
    fn told_once_and_when_it_has_ended() {
        let mut graph = phalanx_core::Graph::new();
        graph.shared("front", ());
        graph.shared("work", ());
        let control = graph.build(2)[0].control();
        let seen_once = one_that_runs();
        let counts = StallCounts::new(&control);
        let mut watch = StallDetector::new(100 * MS, &control, counts.clone());
        let begin = Instant::now();
        let mut tale = Vec::new();
        let mut look = |at: u32, cohort: Option<u64>| {
            let now = begin + at * MS;
            let seen = cohort.map(|cohort| {
                let mut running = seen_once;
                running.cohort = cohort;
                Seen { running, since: now, told: false }
            });
            watch.note(now, 1, seen, |report| tale.push((at, report.to_string())));
        };
        // Short ones, one after the other; then one that stays; then quiet; then one more.
        for (at, cohort) in
            [(0, Some(1)), (50, Some(2)), (100, None), (150, Some(3)), (200, Some(3))]
        {
            look(at, cohort);
        }
        for at in [250, 260, 300, 390] {
            look(at, Some(3));
        }
        look(400, None);
        for (at, cohort) in [(450, Some(4)), (600, Some(4)), (650, Some(5)), (700, None)] {
            look(at, cohort);
        }
        let told = |at, rest: &str| (at, format!("processor 1, {seen_once} {rest}"));
        let expected = [
            told(250, "has run for 100 ms and does not suspend"),
            told(400, "ran for 250 ms"),
            told(600, "has run for 150 ms and does not suspend"),
            told(650, "ran for 200 ms"),
        ];
        assert_eq!(tale, expected);
        assert_eq!((counts.of(1, 1), counts.of(1, 0), counts.of(0, 1)), (2, 0, 0));
    }
}
