//! Compiling servers, and running the tools.

use std::path::Path;
use std::process::{Command, Output};

/// The folder of the crate.
pub(crate) const CRATE_DIR: &str = env!("CARGO_MANIFEST_DIR");

/// Whether a program can be executed. If not, prints that the test was skipped.
pub(crate) fn is_installed(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        eprintln!("SKIPPED: {program} is not installed");
    }
    found
}

/// Copies a file of the crate into a folder.
pub(crate) fn copy(file: &str, folder: &Path) {
    let from = Path::new(CRATE_DIR).join(file);
    std::fs::copy(&from, folder.join(from.file_name().expect("a file"))).expect("a copied file");
}

/// Runs a command in a folder, and panics with its output unless it succeeds.
pub(crate) fn run(folder: &Path, program: &str, arguments: &[&str]) -> String {
    let output = output(folder, program, arguments);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {text}{errors}");
    text
}

/// Runs a command in a folder.
pub(crate) fn output(folder: &Path, program: &str, arguments: &[&str]) -> Output {
    let command = Command::new(program).current_dir(folder).args(arguments).output();
    command.unwrap_or_else(|error| panic!("{program}: {error}"))
}

/// Runs a tool in a folder.
pub(crate) fn stingy(folder: &Path, arguments: &[&str]) -> String {
    run(folder, env!("CARGO_BIN_EXE_phalanx-stingy"), arguments)
}
