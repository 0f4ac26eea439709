//! Deadlock detection: reporting operations that wait for each other in a cycle.
//!
//! It needs no bookkeeping by the processors. When no cohort of the program has run for a second, the supervisor
//! inspects the waits of the operations on each processor once ([`Control::inspect_waits`]), and a second time to
//! confirm a cycle. The next inspection follows only after more cohorts have run, so parked processors are woken only
//! once. The supervisor also inspects the waits when a drain reaches its time limit.

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use phalanx_core::{Control, WaitCycle, Waits};

use super::tracing_events;

/// The time without a cohort after which the processors are inspected.
const PAUSE: Duration = Duration::from_secs(1);
/// The maximum wait for the processors' reports. A processor that runs a long operation does not report.
const ANSWER: Duration = Duration::from_millis(500);

/// The supervisor's record of the program's progress.
#[derive(Default)]
pub(crate) struct DeadlockDetector {
    next: Option<Instant>,
    /// The number of cohorts at the last check.
    last_cohorts: u64,
    /// The number of cohorts when the processors were last inspected.
    inspected_at: Option<u64>,
    /// Whether nothing needs to be checked until a processor wakes up.
    is_settled: bool,
    reported: Vec<WaitCycle>,
}

impl DeadlockDetector {
    /// Checks for progress if it is time, and inspects the processors if there was none. Returns the time of the next
    /// check; `None` if nothing needs to be checked until a processor wakes up.
    pub(crate) fn check(&mut self, now: Instant, control: &Control) -> Option<Instant> {
        if now >= *self.next.get_or_insert(now + PAUSE) {
            self.next = Some(now + PAUSE);
            let cohorts = control.cohorts();
            self.is_settled = cohorts == std::mem::replace(&mut self.last_cohorts, cohorts);
            if self.is_settled && self.inspected_at.replace(cohorts) != Some(cohorts) {
                self.inspect(control);
            }
        }
        self.next.filter(|_| !self.is_settled)
    }

    /// Records that a processor is awake again.
    pub(crate) fn note_awake(&mut self) {
        if std::mem::take(&mut self.is_settled) {
            self.next = None;
        }
    }

    /// Reports the cycles that exist now and were not reported before.
    pub(crate) fn inspect(&mut self, control: &Control) {
        let cycles = find_cycles(control);
        if cycles.is_empty() {
            return;
        }
        let second = find_cycles(control);
        for cycle in cycles.into_iter().filter(|cycle| second.contains(cycle)) {
            if !self.reported.contains(&cycle) {
                super::report(&cycle);
                tracing_events::deadlock(&cycle);
                self.reported.push(cycle);
            }
        }
    }
}

/// Finds the current cycles of waiting operations.
fn find_cycles(control: &Control) -> Vec<WaitCycle> {
    let (sender, answers) = channel();
    control.inspect_waits(move |waits| _ = sender.send(waits));
    let until = Instant::now() + ANSWER;
    let next = || answers.recv_timeout(until.saturating_duration_since(Instant::now())).ok();
    // All senders have been dropped when all processors have reported or ended.
    Waits::cycles(&std::iter::from_fn(next).collect::<Vec<_>>())
}
