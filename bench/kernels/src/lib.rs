//! Fixed workloads that `cargo xtask gates` counts under valgrind.
//!
//! Each kernel repeats one operation. Two runs of different length differ only in the repetitions, so one-time
//! costs cancel. Kernels are deterministic: the clock advances by a fixed step per reading, cohort sizes are
//! declared, and filters and events are generated from a seed.

#![forbid(unsafe_code)]

mod http;
pub mod matching;
mod operations;
pub mod workload;

use clap::ValueEnum;

/// A workload to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kernel {
    /// An operation invoked and run on the same processor
    Dispatch,
    /// An operation called on another stage and awaited
    Call,
    /// The same on a direct stage
    CallDirect,
    /// Parsing a request head and writing a response head
    Http,
    /// An event matched against 20,000 filters
    Match,
    /// The same in cohorts of 1,024
    MatchCohort,
}

/// Runs the kernel's operation `count` times. Operations are rounded down to whole cohorts of 64; at most
/// [`matching::MAX_EVENTS`] events are matched.
pub fn run(kernel: Kernel, count: usize) {
    match kernel {
        Kernel::Dispatch => operations::dispatch(count),
        Kernel::Call => operations::call(count, false),
        Kernel::CallDirect => operations::call(count, true),
        Kernel::Http => http::respond(count),
        Kernel::Match => matching::run(0, count),
        Kernel::MatchCohort => matching::run(1024, count),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kernel_ends() {
        for kernel in Kernel::value_variants() {
            run(*kernel, 128);
        }
    }
}
