//! Events for the crate `tracing`. Without the feature `tracing`, all functions are empty.
//!
//! The program logs its start, its drain and its end, and faults. Shed operations are reported at most once
//! per second and stage, because one event for each would add to the overload. Cohorts are reported only to
//! subscribers of `phalanx::cohort` at the level `TRACE`.
//!
//! A subscriber is foreign code. Its panics are caught: here on the supervisor's thread, and by the scheduler
//! on a processor's thread.

#[cfg(feature = "tracing")]
pub(crate) use enabled::*;

#[cfg(not(feature = "tracing"))]
pub(crate) use disabled::*;

#[cfg(feature = "tracing")]
mod enabled {
    use std::time::{Duration, Instant};

    use phalanx_core::{Control, PanicReport, catch_panic};
    use tracing::{debug, error, info, trace, warn};

    use crate::program::RunError;

    pub(crate) fn started(processors: usize) {
        catch_panic(|| info!(target: "phalanx", processors, "started"));
    }

    pub(crate) fn draining(limit: Duration) {
        catch_panic(|| info!(target: "phalanx", ?limit, "draining"));
    }

    pub(crate) fn cancelling() {
        catch_panic(|| warn!(target: "phalanx", "ending the remaining operations"));
    }

    pub(crate) fn stopped() {
        catch_panic(|| debug!(target: "phalanx", "stopped"));
    }

    pub(crate) fn failed(why: &RunError) {
        catch_panic(|| error!(target: "phalanx", %why, "a processor failed"));
    }

    pub(crate) fn panicked(report: &PanicReport) {
        let PanicReport { stage, operation, site, message, .. } = report;
        let panic = &**message;
        catch_panic(
            || error!(target: "phalanx", stage, operation, %site, panic, "an operation panicked"),
        );
    }

    pub(crate) fn stalled(report: &dyn std::fmt::Display) {
        catch_panic(|| warn!(target: "phalanx", %report, "an operation stalls"));
    }

    pub(crate) fn deadlock(cycle: &dyn std::fmt::Display) {
        catch_panic(|| error!(target: "phalanx", %cycle, "operations wait for each other"));
    }

    pub(crate) fn stuck(lines: &str) {
        catch_panic(|| error!(target: "phalanx", operations = lines, "the program does not end"));
    }

    pub(crate) fn large_operation(stage: &str, operation: &str, bytes: usize) {
        catch_panic(|| warn!(target: "phalanx", stage, operation, bytes, "a large operation"));
    }

    pub(crate) fn undeclared_object(stage: &str, object: &str, bytes: usize, declared: usize) {
        catch_panic(
            || warn!(target: "phalanx", stage, object, bytes, declared, "an undeclared object"),
        );
    }

    #[inline]
    pub(crate) fn cohort(stage: &'static str, operations: usize, ns: u64) {
        trace!(target: "phalanx::cohort", stage, operations, ns, "cohort");
    }

    /// Operations shed so far, by stage.
    #[derive(Default)]
    pub(crate) struct ShedCounts {
        sampled_at: Option<Instant>,
        reported: Vec<u64>,
    }

    impl ShedCounts {
        /// Reports stages whose count has grown, at most once per second. Returns the time of the next check; `None`
        /// without a subscriber.
        pub(crate) fn report(&mut self, control: &Control) -> Option<Instant> {
            const PAUSE: Duration = Duration::from_secs(1);
            let mut is_enabled = false;
            catch_panic(|| {
                is_enabled = tracing::enabled!(target: "phalanx", tracing::Level::WARN);
            });
            if !is_enabled {
                return None;
            }
            let now = Instant::now();
            if let Some(next) = self.sampled_at.map(|at| at + PAUSE).filter(|next| *next > now) {
                return Some(next);
            }
            self.sampled_at = Some(now);
            let mut sums = vec![0; control.stages().count()];
            for index in 0..control.processors() {
                let view = control.processor(index);
                for (sum, stage) in sums.iter_mut().zip(&view.stages) {
                    *sum += stage.shed.deadline + stage.shed.admission + stage.rejected;
                }
            }
            self.reported.resize(sums.len(), 0);
            for ((stage, sum), reported) in control.stages().zip(&sums).zip(&mut self.reported) {
                let added = sum.saturating_sub(std::mem::replace(reported, *sum));
                if added > 0 {
                    catch_panic(
                        || warn!(target: "phalanx", stage, operations = added, "operations shed"),
                    );
                }
            }
            Some(now + PAUSE)
        }
    }
}

#[cfg(not(feature = "tracing"))]
mod disabled {
    use std::time::{Duration, Instant};

    use phalanx_core::{Control, PanicReport};

    use crate::program::RunError;

    pub(crate) fn started(_processors: usize) {}
    pub(crate) fn draining(_limit: Duration) {}
    pub(crate) fn cancelling() {}
    pub(crate) fn stopped() {}
    pub(crate) fn failed(_why: &RunError) {}
    pub(crate) fn panicked(_report: &PanicReport) {}
    pub(crate) fn deadlock(_cycle: &dyn std::fmt::Display) {}
    pub(crate) fn stuck(_lines: &str) {}
    pub(crate) fn large_operation(_stage: &str, _operation: &str, _bytes: usize) {}
    pub(crate) fn undeclared_object(_stage: &str, _object: &str, _bytes: usize, _declared: usize) {}
    pub(crate) fn stalled(_report: &dyn std::fmt::Display) {}
    #[inline(always)]
    pub(crate) fn cohort(_stage: &'static str, _operations: usize, _ns: u64) {}

    #[derive(Default)]
    pub(crate) struct ShedCounts {}

    impl ShedCounts {
        pub(crate) fn report(&mut self, _control: &Control) -> Option<Instant> {
            None
        }
    }
}
