//! The errors of a server.

use std::io;
use std::path::PathBuf;

use phalanx::runtime::RunError;
use phalanx_access::FileError;
use phalanx_service::BindError;
use phalanx_tls::CertificateError;

use crate::config::{ConfigError, LogTarget};
use crate::log::OpenError;

/// Error of starting, running or reconfiguring a server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The configuration is invalid.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Config(Vec<ConfigError>),
    /// The root directory does not exist or is not readable.
    #[error("cannot serve {}: {source}", path.display())]
    Root {
        /// Path from the configuration.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// An address is unavailable.
    #[error(transparent)]
    Listen(#[from] BindError),
    /// The access log cannot be opened.
    #[error("cannot write the access log{}: {source}", where_to(target))]
    Log {
        /// Target from the configuration.
        target: LogTarget,
        /// Cause.
        source: io::Error,
    },
    /// A certificate is unusable.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// A password file is unusable.
    #[error(transparent)]
    Users(#[from] FileError),
    /// The new configuration contains a change that requires a restart.
    #[error("{0} requires a restart")]
    NeedsRestart(&'static str),
    /// Files, directories or addresses that the new configuration names are unavailable; one line for each.
    #[error("{}", .0.join("\n"))]
    Unavailable(Vec<String>),
    /// The runtime failed.
    #[error(transparent)]
    Run(#[from] RunError),
}

fn where_to(target: &LogTarget) -> String {
    match target {
        LogTarget::Stdout => " to standard output".to_owned(),
        LogTarget::File(path) => format!(" {}", path.display()),
    }
}

impl From<OpenError> for ServeError {
    fn from((target, source): OpenError) -> Self {
        Self::Log { target, source }
    }
}
