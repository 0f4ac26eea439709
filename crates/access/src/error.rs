//! What is wrong with a file, where, and what to do.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Something wrong in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineError {
    /// The line, from one; 0 for the whole.
    pub line: usize,
    /// The character in it, from one.
    pub column: usize,
    /// What is wrong, and what was expected.
    pub what: String,
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}", self.what),
            line => write!(f, "line {line}, column {}: {}", self.column, self.what),
        }
    }
}

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The system refuses.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Something in it is wrong.
    #[error("{}", lines(path, errors))]
    Invalid {
        /// Which.
        path: PathBuf,
        /// All that is wrong, at least one.
        errors: Vec<LineError>,
    },
}

impl FileError {
    pub(crate) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { what, path: path.into(), source }
    }
}

fn lines(path: &Path, wrong: &[LineError]) -> String {
    let path = path.display();
    wrong.iter().map(|wrong| format!("{path}: {wrong}")).collect::<Vec<_>>().join("\n")
}
