//! Errors in files of users and rules, with their position and remedy.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use phalanx_tls::CertificateError;

/// An error in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineError {
    /// The line, from 1; 0 for the whole file.
    pub line: usize,
    /// The character in the line, from 1.
    pub column: usize,
    /// A description of the error and of the expected text.
    pub message: String,
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}", self.message),
            line => write!(f, "line {line}, column {}: {}", self.column, self.message),
        }
    }
}

/// A file or a URL is unusable.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// A system call failed.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The attempted action.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file contains errors.
    #[error("{}", lines(path, errors))]
    Invalid {
        /// The file.
        path: PathBuf,
        /// All errors, at least one.
        errors: Vec<LineError>,
    },
    /// A URL, or the file of a field of requests, is unusable.
    #[error("{0}")]
    Unusable(String),
    /// The authorities of a URL's server cannot be loaded.
    #[error(transparent)]
    Authorities(#[from] CertificateError),
}

impl FileError {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, path: path.into(), source }
    }
}

fn lines(path: &Path, errors: &[LineError]) -> String {
    let path = path.display();
    errors.iter().map(|error| format!("{path}: {error}")).collect::<Vec<_>>().join("\n")
}
