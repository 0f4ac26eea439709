//! Why a program could not be run.

use std::io;
use std::net::SocketAddr;

use phalanx_core::CallError;

/// Why a program could not be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// No driver could be had.
    #[error("no driver can be had: {0}")]
    Driver(#[source] io::Error),
    /// The address for the admin pages cannot be listened on.
    #[error("cannot listen on {address} for the admin pages: {source}")]
    Admin {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The system gives no thread for a processor.
    #[error("cannot start a thread for each processor: {0}")]
    Thread(#[source] io::Error),
    /// [`Runtime::run`](crate::Runtime::run) was called by an operation, or by `start`, of a program
    /// that runs on this thread. It would keep that program's processor until it returns.
    #[error(
        "Runtime::run was called inside an operation of a running program, whose processor it would \
         keep: call it on a thread of its own, or have the one program declare the stages of both"
    )]
    Nested,
    /// SIGINT and SIGTERM cannot be listened to.
    #[error("cannot listen to signals: {0}")]
    Signals(#[source] io::Error),
    /// The program's own start failed on some processor.
    #[error("{0}")]
    Start(#[from] StartError),
    /// The program was ended before the operation of [`Runtime::block_on`](crate::Runtime::block_on) returned.
    #[error("the program was ended before main returned")]
    Cancelled,
    /// A processor's thread panicked outside of any operation: a fault of the runtime.
    #[error("processor {0} failed; its panic is above")]
    Processor(usize),
}

/// Why a program's start failed.
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
