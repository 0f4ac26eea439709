//! The errors of a broker.

use std::path::PathBuf;

use phalanx::runtime::RunError;
use phalanx_access::FileError;
use phalanx_service::BindError;
use phalanx_store::OpenError;
use phalanx_tls::CertificateError;

use crate::config::ConfigError;

/// Why a broker cannot start, or has stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The configuration is invalid.
    #[error("{}", lines(.0))]
    Config(Vec<ConfigError>),
    /// An address is unavailable.
    #[error(transparent)]
    Listen(#[from] BindError),
    /// The password file, the access list or another part of the access control is unusable.
    #[error(transparent)]
    Access(#[from] FileError),
    /// A certificate is unusable.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The persistence directory cannot be read, or another process uses it.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The stored state has an unknown format.
    #[error("{}: {reason}; it may have been written by a later version. Nothing was changed", path.display())]
    Unknown {
        /// The directory.
        path: PathBuf,
        /// The unknown data.
        reason: String,
    },
    /// The disk failed while the broker was running, and the broker stopped. Acknowledged data is on disk.
    #[error("{0}")]
    Broken(String),
    /// Another node has adopted the sessions. The next start begins without them.
    #[error(
        "another node of the cluster has this node's sessions ({0}); start it again: it begins with an empty journal"
    )]
    Adopted(String),
    /// The runtime failed.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// One line per error.
pub(crate) fn lines(errors: &[ConfigError]) -> String {
    errors.iter().map(ConfigError::to_string).collect::<Vec<_>>().join("\n")
}
