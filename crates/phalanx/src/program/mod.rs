//! The types passed to a program when it starts, fails or ends.

mod error;
mod exit_report;
mod start;

pub use self::error::{RunError, StartError};
pub(crate) use self::exit_report::SETTLING;
pub use self::exit_report::{ExitReport, Leaks};
pub(crate) use self::start::StartFn;
pub use self::start::{StartContext, Started};
