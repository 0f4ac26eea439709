//! The interface between a processor and its environment: the clock, I/O and reports.

use std::time::Duration;

use crate::panic::PanicReport;

/// The default of [`World::sleep_cost`], in nanoseconds.
const DEFAULT_SLEEP_COST: u64 = 3_000;

/// A duration in the clock's nanoseconds; `u64::MAX` if it is out of range.
pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    duration.as_nanos().try_into().unwrap_or(u64::MAX)
}

/// The environment of a processor: its clock and its I/O. A simulation can replace it, because the
/// processor has no other access to the outside.
///
/// A panic in [`on_panic`](Self::on_panic), [`on_large_operation`](Self::on_large_operation),
/// [`on_undeclared_object`](Self::on_undeclared_object) or [`on_cohort`](Self::on_cohort) is caught, because these may
/// call subscribers of the user. A panic in any other method unwinds out of the turn; no operation is lost.
pub trait World {
    /// The current time in nanoseconds. The clock must be monotonic, and the same for all processors of a program,
    /// because they exchange deadlines.
    fn now(&self) -> u64;
    /// Wakes the operations whose I/O has completed. Returns `true` if there were any.
    fn reap(&self) -> bool;
    /// Submits the I/O that operations have started to the kernel.
    fn submit(&self);
    /// Submits like [`submit`](Self::submit) while this processor has a backlog. The implementation may leave new input
    /// in the kernel, and the next [`reap`](Self::reap) may be several turns away. The default implementation calls
    /// `submit`.
    #[inline]
    fn submit_backlogged(&self) {
        self.submit();
    }
    /// Submits, then sleeps until I/O completes, the processor's [`Unpark`](crate::Unpark) is called, or `timeout`
    /// nanoseconds have passed. Without a timeout it may sleep indefinitely. The thread has no current processor during
    /// the call, so it cannot invoke operations.
    fn park(&self, timeout: Option<u64>);
    /// Called after a turn that did some work and left none. The implementation may wait briefly, for at most `timeout`
    /// nanoseconds, so that several events arrive. The rest of the program cannot interrupt this wait, so keep it
    /// short. Returns its length in nanoseconds, which counts as sleep. Does nothing by default.
    #[inline]
    fn coalesce(&self, timeout: Option<u64>) -> u64 {
        let _ = timeout;
        0
    }
    /// Reports a caught panic in an operation, a handler or a hook of a stage. Called after the cohort
    /// has ended. Does nothing by default.
    fn on_panic(&self, report: &PanicReport) {
        let _ = report;
    }
    /// Reports each type of operation of `stage` whose closure takes more than
    /// [`LARGE_OPERATION`](crate::LARGE_OPERATION) bytes, once per type. Does nothing by default.
    fn on_large_operation(&self, stage: &'static str, operation: &'static str, bytes: usize) {
        let _ = (stage, operation, bytes);
    }
    /// Reports a value that an operation of `stage` puts into the pools and that is larger than every object that the
    /// stage declares ([`StageOptions::object`](crate::StageOptions::object)), with the bytes of both. Each processor
    /// reports once per stage, and again for a larger value. Does nothing by default.
    fn on_undeclared_object(
        &self,
        stage: &'static str,
        object: &'static str,
        bytes: usize,
        declared: usize,
    ) {
        let _ = (stage, object, bytes, declared);
    }
    /// Reports every cohort: its stage, its number of operations and its run time in nanoseconds. Its cost is added to
    /// every cohort. Does nothing by default.
    #[inline]
    fn on_cohort(&self, stage: &'static str, operations: usize, ns: u64) {
        let _ = (stage, operations, ns);
    }
    /// The CPU time that this thread has used, in nanoseconds. The cohort tuner uses it to compare cohort sizes
    /// ([`Graph::tune_cohorts`](crate::Graph::tune_cohorts)) and reads it about ten times per million operations. By
    /// default, the [current time](Self::now).
    fn thread_cpu_time(&self) -> u64 {
        self.now()
    }
    /// The queue delay outside the stages, in nanoseconds: how long the world's work for this thread and the input
    /// [left in the kernel](Self::submit_backlogged) have been waiting. [`Ingress::Admit`](crate::Ingress::Admit) adds
    /// it to the delay of the stages. Called about a hundred times a second. Zero by default.
    fn external_queue_delay(&self) -> u64 {
        0
    }
    /// The CPU time of one [`park`](Self::park) on this thread, in nanoseconds. The processor uses it to decide [how
    /// long to poll](crate::Processor::run) before it parks. Called after each idle period, so it must be cheap. 3 µs
    /// by default.
    #[inline]
    fn sleep_cost(&self) -> u64 {
        DEFAULT_SLEEP_COST
    }
    /// The current maximum time for which an idle processor polls, in nanoseconds. `initial` is the value passed to
    /// [`run`](crate::Processor::run), which is the default. Called while the processor is idle.
    #[inline]
    fn spin(&self, initial: u64) -> u64 {
        initial
    }
    /// Called when this processor has waited for some time for another processor to leave an exclusive stage or to
    /// empty its ring. That processor may need this core. By default, calls [`relax`](Self::relax).
    fn yield_core(&self) {
        self.relax();
    }
    /// Called while the processor polls for work.
    fn relax(&self) {
        std::hint::spin_loop();
    }
}

/// A world without input whose time does not advance, for tests and examples.
#[doc(hidden)]
pub struct IdleWorld;

impl World for IdleWorld {
    fn now(&self) -> u64 {
        0
    }
    fn reap(&self) -> bool {
        false
    }
    fn submit(&self) {}
    fn park(&self, _: Option<u64>) {}
}
