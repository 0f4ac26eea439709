//! The error type of the tools.

use std::io;
use std::path::{Path, PathBuf};

/// Failure of a tool.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    /// A file with contents that a tool cannot use. `what` includes the remedy.
    #[error("{}: {message}", path.display())]
    Contents { path: PathBuf, message: String },
}

impl Error {
    pub(crate) fn contents(path: &Path, message: impl Into<String>) -> Self {
        Self::Contents { path: path.to_owned(), message: message.into() }
    }

    pub(crate) fn read(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Read { path, source }
    }

    pub(crate) fn write(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Write { path, source }
    }
}
