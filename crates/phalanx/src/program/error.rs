//! Errors of running a program.

use std::io;
use std::net::SocketAddr;

use phalanx_core::CallError;

/// The reason why a program did not run or did not end normally.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// No I/O driver is available.
    #[error("no I/O driver is available: {0}")]
    Driver(#[source] io::Error),
    /// An option of [`Runtime`](crate::Runtime) is out of its range.
    #[error("Runtime::{option} is {value}, but must be in the range 1 to {most}")]
    OutOfRange {
        /// The option.
        option: &'static str,
        /// Its value.
        value: u64,
        /// The largest value.
        most: u64,
    },
    /// The system cannot open the I/O driver of a processor.
    #[error(
        "cannot open the I/O driver of processor {processor}: {source}; if a limit is reached, raise the limits of the \
         process on open files and on locked memory, or run fewer processors"
    )]
    OpenDriver {
        /// The number of the processor.
        processor: usize,
        /// The cause.
        source: io::Error,
    },
    /// The I/O driver of a processor failed while the program waited for the I/O that was in flight at its end.
    #[error("the I/O driver of processor {processor} failed at the end of the program: {source}")]
    Settle {
        /// The number of the processor.
        processor: usize,
        /// The cause.
        source: io::Error,
    },
    /// The address of the admin pages is not available.
    #[error("cannot listen on {address} for the admin pages: {source}")]
    Admin {
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: io::Error,
    },
    /// The system cannot create a thread.
    #[error("cannot create a thread for a processor: {0}{advice}", advice = advice(.0))]
    Thread(#[source] io::Error),
    /// [`Runtime::run`](crate::Runtime::run) was called on a thread that runs a processor, by an operation or
    /// by `start`. It would block that processor.
    #[error(
        "Runtime::run was called on a thread that runs a processor, which it would block; call it on \
         another thread, or declare the stages of both programs on one graph"
    )]
    Nested,
    /// The handlers for SIGINT and SIGTERM cannot be installed.
    #[error("cannot handle signals: {0}{advice}", advice = advice(.0))]
    Signals(#[source] io::Error),
    /// The profile of [`Runtime::profile`](crate::Runtime::profile) cannot be used.
    #[error("cannot use the profile {path}: {reason}")]
    Profile {
        /// The file, or the environment variable of `phalanx profile`.
        path: String,
        /// The cause.
        reason: String,
    },
    /// `start` failed on a processor.
    #[error("{0}")]
    Start(#[from] StartError),
    /// The main operation of [`Runtime::block_on`](crate::Runtime::block_on) was cancelled before it returned.
    #[error("the program ended before main returned")]
    Cancelled,
    /// `start` panicked on a processor.
    #[error("start panicked on processor {0}; see its panic above")]
    StartPanicked(usize),
    /// A scope of [`Runtime::thread_scope`](crate::Runtime::thread_scope) panicked.
    #[error("a scope of Runtime::thread_scope panicked on processor {0}; see its panic above")]
    ScopePanicked(usize),
    /// A scope of [`Runtime::thread_scope`](crate::Runtime::thread_scope) did not call its argument, so that the
    /// processor did not run.
    #[error(
        "a scope of Runtime::thread_scope did not call its argument on processor {0}; call it once"
    )]
    ScopeNotCalled(usize),
    /// A processor's thread panicked outside the program's code, which is a fault of the runtime.
    #[error("processor {0} failed; see its panic above")]
    Processor(usize),
}

/// The limit to raise if it prevents a new thread, after a colon.
fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::WouldBlock => {
            ": raise the limit on threads (ulimit -u, or pids.max of the cgroup)"
        }
        _ => "",
    }
}

/// The reason why a program's `start` failed.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct StartError(Box<dyn std::error::Error + Send + Sync>);

impl From<io::Error> for StartError {
    fn from(error: io::Error) -> Self {
        Self(error.into())
    }
}

impl From<CallError> for StartError {
    fn from(error: CallError) -> Self {
        Self(error.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_on_threads_is_named() {
        let limit = || io::Error::from(io::ErrorKind::WouldBlock);
        for error in [RunError::Thread(limit()), RunError::Signals(limit())] {
            assert!(error.to_string().contains("ulimit -u"), "{error}");
        }
        let other = RunError::Signals(io::ErrorKind::InvalidInput.into()).to_string();
        assert_eq!(other, "cannot handle signals: invalid input parameter");
    }
}
