//! `cargo xtask loom`: the loom models of core and threads.
//!
//! They are compiled with `--cfg loom`, which rebuilds every crate, so they have their own target folder. They
//! are built in release mode, since a model is executed thousands of times.

use std::path::Path;
use std::process::Command;

use crate::task::{Outcome, cargo, succeed, target};

/// Runs the models whose names contain one of `filters`, or all models (`loom` is in their names).
///
/// Finding no model is a failure; otherwise a mistyped filter would pass.
pub(crate) fn run(root: &Path, filters: &[String]) -> Outcome {
    let listed = models(root, filters).arg("--list").output();
    let listed = listed.map_err(|error| format!("cannot start cargo: {error}"))?;
    if !listed.status.success() {
        eprint!("{}", String::from_utf8_lossy(&listed.stderr));
        return Err("the models do not compile".into());
    }
    if count(&String::from_utf8_lossy(&listed.stdout)) == 0 {
        return Err("no model matches; models are unit tests with `loom` in their names".into());
    }
    let failed = "a model failed; use LOOM_LOG=trace and LOOM_CHECKPOINT_FILE to find the cause";
    succeed(&mut models(root, filters), failed)?;
    Ok(true)
}

/// The command that runs the models, to which arguments of the test program can be added.
fn models(root: &Path, filters: &[String]) -> Command {
    let mut command = cargo(root);
    let flags = std::env::var("RUSTFLAGS").unwrap_or_default();
    command
        .env("RUSTFLAGS", format!("{flags} --cfg loom").trim_start())
        .env("CARGO_TARGET_DIR", target(root).join("loom"))
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

/// The number of tests in the output of a test program's `--list`.
fn count(listing: &str) -> usize {
    listing.lines().filter(|line| line.ends_with(": test")).count()
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
