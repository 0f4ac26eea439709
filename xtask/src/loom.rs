//! `cargo xtask loom`: the loom models of core and threads.
//!
//! They are compiled with `--cfg loom`, which rebuilds every crate, so they have their own target folder. They
//! are built in release mode, since a model is executed thousands of times.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Runs the models whose names contain one of `filters`, or all models (`loom` is in their names).
///
/// Finding no model is a failure; otherwise a mistyped filter would pass.
pub(crate) fn run(root: &Path, filters: &[String]) -> ExitCode {
    let listed = match cargo(root, filters).arg("--list").output() {
        Ok(listed) => listed,
        Err(error) => return failed(&format!("cannot start cargo: {error}")),
    };
    if !listed.status.success() {
        eprint!("{}", String::from_utf8_lossy(&listed.stderr));
        return failed("the models do not compile");
    }
    if count(&String::from_utf8_lossy(&listed.stdout)) == 0 {
        return failed("no model matches; models are unit tests with `loom` in their names");
    }
    match cargo(root, filters).status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => {
            failed("a model failed; use LOOM_LOG=trace and LOOM_CHECKPOINT_FILE to find the cause")
        }
        Err(error) => failed(&format!("cannot start cargo: {error}")),
    }
}

/// The command that runs the models, to which arguments of the test program can be added.
fn cargo(root: &Path, filters: &[String]) -> Command {
    // Set by cargo for its subprocesses; names the cargo of the toolchain in use.
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let flags = std::env::var("RUSTFLAGS").unwrap_or_default();
    command
        .current_dir(root)
        .env("RUSTFLAGS", format!("{flags} --cfg loom").trim_start())
        .env("CARGO_TARGET_DIR", target(root))
        .args(["test", "-p", "phalanx-core", "-p", "phalanx-threads", "--release", "--lib", "--"])
        .args(filters);
    if filters.is_empty() {
        command.arg("loom");
    }
    if std::env::var_os("LOOM_MAX_PREEMPTIONS").is_none() {
        command.env("LOOM_MAX_PREEMPTIONS", "2");
    }
    command
}

/// The folder `loom` in the current target folder.
fn target(root: &Path) -> PathBuf {
    let main = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    root.join(main).join("loom")
}

/// The number of tests in the output of a test program's `--list`.
fn count(listing: &str) -> usize {
    listing.lines().filter(|line| line.ends_with(": test")).count()
}

/// Prints why the task failed.
fn failed(why: &str) -> ExitCode {
    eprintln!("xtask loom: {why}");
    ExitCode::FAILURE
}

#[cfg(test)]
mod tests {
    use super::count;

    #[test]
    fn counts_tests_in_a_listing() {
        assert_eq!(
            count("inbox::loom::push: test\nqueue::loom::pop: test\n\n2 tests, 0 benchmarks"),
            2
        );
        assert_eq!(count("0 tests, 0 benchmarks\n"), 0);
    }
}
