//! Code that tasks share: their outcome, and calls of cargo.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Whether a task that ran to its end found everything in order; it has printed what was not.
pub(crate) type Outcome = Result<bool, Failure>;

/// Why a task did not run to its end.
#[derive(Debug)]
pub(crate) struct Failure {
    why: String,
    code: u8,
}

impl<S: Into<String>> From<S> for Failure {
    fn from(why: S) -> Self {
        Self { why: why.into(), code: 1 }
    }
}

/// Arguments that the task does not understand.
pub(crate) fn usage(why: impl Into<String>) -> Failure {
    Failure { why: why.into(), code: 2 }
}

/// Prints why the task `name` failed, if so, and returns its exit code.
pub(crate) fn finish(name: &str, outcome: Outcome) -> ExitCode {
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(Failure { why, code }) => {
            eprintln!("xtask {name}: {why}");
            ExitCode::from(code)
        }
    }
}

/// The cargo of the toolchain in use, in `folder`. Cargo names itself to its subprocesses.
pub(crate) fn cargo(folder: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(folder);
    command
}

/// The target folder.
pub(crate) fn target(root: &Path) -> PathBuf {
    root.join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

/// Runs a command.
///
/// # Errors
/// `otherwise` if it fails, or that it cannot start.
pub(crate) fn succeed(command: &mut Command, otherwise: &str) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(otherwise.to_owned()),
        Err(error) => Err(format!("{}: {error}", command.get_program().display())),
    }
}
