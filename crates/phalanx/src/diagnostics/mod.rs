//! Reports of faults: panics, operations that stall or wait for each other, and programs that do not end.

mod deadlocks;
mod panics;
mod report;
mod stall_detector;
pub(crate) mod stuck;
pub(crate) mod tracing_events;

pub(crate) use self::deadlocks::DeadlockDetector;
pub(crate) use self::panics::PanicHook;
pub use self::report::report;
pub use self::stall_detector::DEFAULT_STALL_THRESHOLD;
pub(crate) use self::stall_detector::{StallCounts, StallDetector};
pub use self::stuck::{END_LIMIT, EXIT_STUCK};
