//! Code that tasks share: their outcome, and calls of cargo.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Whether a task that ran to its end found everything in order; it has printed what was not.
///
/// The error is why the task did not run to its end.
pub(crate) type Outcome = Result<bool, Failure>;

/// Why a task could not do its work: a text, or the error of a call.
pub(crate) type Failure = Box<dyn Error + Send + Sync>;

/// Prints why the task failed, if so, and returns its exit code.
pub(crate) fn exit_code(result: Outcome) -> ExitCode {
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(reason) => {
            eprintln!("xtask: {reason}");
            ExitCode::FAILURE
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

/// The path of an installed program: on the search path, where Debian installs servers, or where `go install` does.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join("go/bin"));
    let servers = ["/usr/sbin", "/usr/local/bin"].map(PathBuf::from);
    let mut folders = std::env::split_paths(&path).chain(servers).chain(home);
    folders.find_map(|folder| Some(folder.join(program)).filter(|path| path.is_file()))
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

/// The median of `values`, which must not contain NaN.
pub(crate) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_on_the_search_path() {
        assert!(find("sh").is_some_and(|path| path.is_file()));
        assert_eq!(find("no-such-program"), None);
    }

    #[test]
    fn the_middle_one() {
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), 2.0);
    }
}
