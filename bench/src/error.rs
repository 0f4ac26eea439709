//! Errors of benchmarks.

use std::io;
use std::path::PathBuf;

/// Errors of a measurement.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A system call failed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// A server does not work as expected.
    #[error("{name} cannot be measured: {reason}")]
    Server {
        /// Its name.
        name: String,
        /// The cause.
        reason: String,
    },
    /// The load on a server failed.
    #[error("load on {name} failed: {reason}")]
    Load {
        /// Its name.
        name: String,
        /// The cause.
        reason: String,
    },
    /// A measuring process failed.
    #[error("a measuring process failed: {0}")]
    Process(String),
    /// Files that cannot be evicted from the page cache.
    #[error(
        "{} is on a file system in memory, whose files cannot be evicted from the page cache; set TMPDIR to a folder on a disk",
        .0.display()
    )]
    InMemory(PathBuf),
    /// No known server was selected.
    #[error(
        "--only selects no available server; known are phalanx, floor, twin, fibres, nginx, lighttpd, h2o, caddy, sws"
    )]
    NoServers,
    /// A signal ended the run.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// The error of a server that does not work as expected.
    pub(crate) fn server(name: impl Into<String>, reason: impl ToString) -> Self {
        Self::Server { name: name.into(), reason: reason.to_string() }
    }

    /// The error of a load.
    pub(crate) fn load(name: impl Into<String>, reason: impl ToString) -> Self {
        Self::Load { name: name.into(), reason: reason.to_string() }
    }

    /// The error of a measuring process.
    pub(crate) fn process(reason: impl ToString) -> Self {
        Self::Process(reason.to_string())
    }
}
