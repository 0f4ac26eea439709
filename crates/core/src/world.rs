//! The interface between a processor and everything outside of it: the clock, I/O and reports.

use crate::panic::PanicReport;

/// Nanoseconds that a sleep costs where the [`World`] does not say.
const DEFAULT_SLEEP_COST: u64 = 3_000;

/// What a processor is handed: a clock, and the way to completions of I/O. All else of the outside
/// stays outside, so that a simulation can take its place.
///
/// A panic in [`panicked`](Self::panicked), [`on_large_operation`](Self::on_large_operation) or [`cohort`](Self::cohort) is contained: these may tell
/// subscribers of a user's. A panic in another method leaves the turn, and no operation is lost by it.
pub trait World {
    /// Nanoseconds of a clock that never goes back, the same for all processors of a program:
    /// deadlines travel.
    fn now(&self) -> u64;
    /// Wakes the operations whose I/O has completed. True if there were any.
    fn reap(&self) -> bool;
    /// Hands the I/O that operations have started to the kernel.
    fn submit(&self);
    /// As [`submit`](Self::submit), while operations wait here for their turn: what comes meanwhile is better left
    /// outside than to wait among them, and the next [`reap`](Self::reap) may be some turns away. No different by default.
    #[inline]
    fn submit_backlogged(&self) {
        self.submit();
    }
    /// Submits, then sleeps until something has completed, the processor's
    /// [`Unpark`](crate::Unpark) is called, or `timeout` nanoseconds are over.
    fn park(&self, timeout: Option<u64>);
    /// Called after a turn that did something, when nothing is left to do here: whether to wait a
    /// little for more than one thing to come, `timeout` nanoseconds at most. Nothing ends such a
    /// wait from this program, so it is to be short. None by default.
    #[inline]
    fn coalesce(&self, timeout: Option<u64>) {
        let _ = timeout;
    }
    /// Told of a panic in an operation, a handler or a hook of a stage, which was contained. It is
    /// told when the cohort is over. A panic in here is contained too.
    fn panicked(&self, report: &PanicReport) {
        let _ = report;
    }
    /// Told once of each type of operation of `stage` whose closure takes more than
    /// [`LARGE_OPERATION`](crate::LARGE_OPERATION) bytes.
    fn on_large_operation(&self, stage: &'static str, operation: &'static str, bytes: usize) {
        let _ = (stage, operation, bytes);
    }
    /// Told of every cohort: its stage, its operations and its nanoseconds. To do anything here
    /// costs every cohort; nothing is free.
    #[inline]
    fn cohort(&self, stage: &'static str, operations: usize, ns: u64) {
        let _ = (stage, operations, ns);
    }
    /// Nanoseconds that this thread has been running, without those in which the machine ran others:
    /// by it the sizes of cohorts are compared ([`Graph::tune_cohorts`](crate::Graph::tune_cohorts)),
    /// some ten times in a million operations. The [time](Self::now) where that cannot be told.
    fn thread_cpu_time(&self) -> u64 {
        self.now()
    }
    /// Nanoseconds that what costs this thread's time has waited out here for its turn: work that operations have asked for,
    /// and what has come and was [left outside](Self::submit_backlogged). [`Admission`](crate::Admission) adds it to what is
    /// waited in the stages. None by default; asked some hundred times a second.
    fn external_queue_delay(&self) -> u64 {
        0
    }
    /// Nanoseconds of processor time that one more [`park`](Self::park) costs this thread. By it a
    /// processor decides [for how long it polls](crate::Processor::run) before it parks. Asked after each
    /// idle period, so it must be cheap. 3 µs by default.
    #[inline]
    fn sleep_cost(&self) -> u64 {
        DEFAULT_SLEEP_COST
    }
    /// Called while there is nothing to do but soon may be.
    fn relax(&self) {
        std::hint::spin_loop();
    }
}
