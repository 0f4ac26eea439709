//! What happens in a program's life, as events for the crate `tracing`. With its feature off, all of
//! this is nothing.
//!
//! Quiet by default: a line at the start, at the end and for what goes wrong. Work that is turned away
//! is told once a second and stage, however much it is, since telling it one by one would add to the
//! load. Cohorts are told only to whoever listens to `phalanx::cohort` at the level `TRACE`.
//!
//! A subscriber is foreign code. A panic in it is contained: here on the supervisor's thread, and by
//! the scheduler on a processor's.

#[cfg(feature = "tracing")]
pub(crate) use telling::*;

#[cfg(not(feature = "tracing"))]
pub(crate) use silent::*;

#[cfg(feature = "tracing")]
mod telling {
    use std::time::{Duration, Instant};

    use phalanx_core::{Control, PanicReport};
    use tracing::{debug, error, info, trace, warn};

    use crate::blocking::contain;
    use crate::error::RunError;

    pub(crate) fn started(processors: usize) {
        contain(|| info!(target: "phalanx", processors, "started"));
    }

    pub(crate) fn draining(limit: Duration) {
        contain(|| info!(target: "phalanx", ?limit, "draining"));
    }

    pub(crate) fn ending() {
        contain(|| warn!(target: "phalanx", "ending what was not finished in time"));
    }

    pub(crate) fn stopped() {
        contain(|| debug!(target: "phalanx", "stopped"));
    }

    pub(crate) fn failed(why: &RunError) {
        contain(|| error!(target: "phalanx", %why, "a processor failed"));
    }

    pub(crate) fn panicked(report: &PanicReport) {
        let PanicReport { stage, operation, site, message, .. } = report;
        let panic = &**message;
        contain(
            || error!(target: "phalanx", stage, operation, %site, panic, "an operation panicked"),
        );
    }

    pub(crate) fn long_operation(report: &dyn std::fmt::Display) {
        contain(|| warn!(target: "phalanx", %report, "a long operation"));
    }

    pub(crate) fn stuck(lines: &str) {
        contain(|| error!(target: "phalanx", operations = lines, "the program does not end"));
    }

    pub(crate) fn wide(stage: &str, operation: &str, bytes: usize) {
        contain(|| warn!(target: "phalanx", stage, operation, bytes, "a wide operation"));
    }

    #[inline]
    pub(crate) fn cohort(stage: &'static str, operations: usize, ns: u64) {
        trace!(target: "phalanx::cohort", stage, operations, ns, "cohort");
    }

    /// What was turned away until now, by stage.
    #[derive(Default)]
    pub(crate) struct Sheds {
        looked: Option<Instant>,
        seen: Vec<u64>,
    }

    impl Sheds {
        /// Tells of what has grown, if it was not looked at for a second. Returns when to look again;
        /// none if nobody listens.
        pub(crate) fn look(&mut self, control: &Control) -> Option<Instant> {
            const PAUSE: Duration = Duration::from_secs(1);
            let mut listens = false;
            contain(|| {
                listens = tracing::enabled!(target: "phalanx", tracing::Level::WARN);
            });
            if !listens {
                return None;
            }
            let now = Instant::now();
            if let Some(next) = self.looked.map(|at| at + PAUSE).filter(|next| *next > now) {
                return Some(next);
            }
            self.looked = Some(now);
            let mut sums = vec![0; control.stages().count()];
            for index in 0..control.processors() {
                let view = control.processor(index);
                for (sum, stage) in sums.iter_mut().zip(&view.stages) {
                    *sum += stage.shed.deadline + stage.shed.admission + stage.refused;
                }
            }
            self.seen.resize(sums.len(), 0);
            for ((stage, sum), seen) in control.stages().zip(&sums).zip(&mut self.seen) {
                let more = sum.saturating_sub(std::mem::replace(seen, *sum));
                if more > 0 {
                    contain(|| warn!(target: "phalanx", stage, operations = more, "turned away"));
                }
            }
            Some(now + PAUSE)
        }
    }
}

#[cfg(not(feature = "tracing"))]
mod silent {
    use std::time::{Duration, Instant};

    use phalanx_core::{Control, PanicReport};

    use crate::error::RunError;

    pub(crate) fn started(_processors: usize) {}
    pub(crate) fn draining(_limit: Duration) {}
    pub(crate) fn ending() {}
    pub(crate) fn stopped() {}
    pub(crate) fn failed(_why: &RunError) {}
    pub(crate) fn panicked(_report: &PanicReport) {}
    pub(crate) fn stuck(_lines: &str) {}
    pub(crate) fn wide(_stage: &str, _operation: &str, _bytes: usize) {}
    pub(crate) fn long_operation(_report: &dyn std::fmt::Display) {}
    #[inline(always)]
    pub(crate) fn cohort(_stage: &'static str, _operations: usize, _ns: u64) {}

    #[derive(Default)]
    pub(crate) struct Sheds {}

    impl Sheds {
        pub(crate) fn look(&mut self, _control: &Control) -> Option<Instant> {
            None
        }
    }
}
