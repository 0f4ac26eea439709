//! `cargo xtask hostile`: the hostile programs under Miri, AddressSanitizer and valgrind.
//!
//! The test binaries named `hostile` of core and phalanx contain safe programs that misuse the crates. As plain
//! tests they assert the invariants. Here tools check their memory accesses as well:
//!
//! - Miri interprets core's programs (`miri`) and the simulated ones (`miri-sim`, which is slow and runs only
//!   when it is named). It detects all kinds of undefined behaviour, but cannot run real drivers.
//! - AddressSanitizer and valgrind run all of them natively, on the poll driver. They detect accesses outside of
//!   an allocation or after it was freed.
//!
//! Miri and AddressSanitizer need a nightly toolchain. Missing tools are skipped with a message.

use std::path::Path;
use std::process::{Command, Stdio};

use clap::ValueEnum;

use crate::artifacts;
use crate::task::{self, Outcome, target};

/// A tool that checks the programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Tool {
    /// Miri, for the programs of core.
    Miri,
    /// Miri, for the simulated programs of phalanx.
    MiriSim,
    /// AddressSanitizer.
    Asan,
    /// Valgrind.
    Valgrind,
}

/// The number of hostile programs: that of core and that of phalanx.
const PROGRAMS: usize = 2;

/// Reports of valgrind that are no errors, each with the reason.
const SUPPRESSIONS: &str = "xtask/valgrind.supp";

const MIRI_FLAGS: &str = "-Zmiri-strict-provenance -Zmiri-disable-isolation -Zmiri-ignore-leaks";

/// Why a tool did not pass.
enum Obstacle {
    /// The tool cannot run here.
    Missing(String),
    /// The tool reported an error, or a test failed.
    Failed(String),
}

/// Runs the named tools, or all but the slow ones.
pub(crate) fn run(root: &Path, tools: &[Tool]) -> Outcome {
    let tools = match tools {
        [] => &[Tool::Miri, Tool::Asan, Tool::Valgrind],
        tools => tools,
    };
    let (mut skipped, mut failed) = (Vec::new(), Vec::new());
    for tool in tools {
        let name = tool.to_possible_value().expect("no tool is hidden");
        let name = name.get_name();
        println!("\n--- {name}");
        match run_tool(root, *tool) {
            Ok(()) => {}
            Err(Obstacle::Missing(reason)) => skipped.push(format!("{name}: {reason}")),
            Err(Obstacle::Failed(reason)) => failed.push(format!("{name}: {reason}")),
        }
    }
    for reason in &skipped {
        println!("\n!!! SKIPPED: {reason}");
    }
    for reason in &failed {
        eprintln!("xtask hostile: {reason}");
    }
    Ok(failed.is_empty())
}

fn run_tool(root: &Path, tool: Tool) -> Result<(), Obstacle> {
    match tool {
        Tool::Miri => miri(root, &["-p", "phalanx-core", "--test", "hostile"]),
        // The other tests use sockets and threads of the machine.
        Tool::MiriSim => miri(root, &["-p", "phalanx", "--test", "hostile", "simulated"]),
        Tool::Asan => asan(root),
        Tool::Valgrind => valgrind(root),
    }
}

fn miri(root: &Path, arguments: &[&str]) -> Result<(), Obstacle> {
    nightly(&["miri", "rust-src"])?;
    let mut command = cargo_nightly(root, "miri");
    // Wakers are words, not pointers, so strict provenance holds. The programs read the clock and leak handles on
    // purpose.
    with_flags(&mut command, "MIRIFLAGS", MIRI_FLAGS);
    // Miri takes seconds for the backtraces of panics on purpose.
    command.env("RUST_BACKTRACE", "0").args(["miri", "test"]).args(arguments);
    succeed(command, "Miri reported an error, or a test failed")
}

fn asan(root: &Path) -> Result<(), Obstacle> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Err(Obstacle::Missing("it runs on x86-64 Linux only".into()));
    }
    nightly(&[])?;
    let mut command = cargo_nightly(root, "asan");
    with_flags(&mut command, "RUSTFLAGS", "-Zsanitizer=address --cfg phalanx_asan");
    // The programs leak handles on purpose.
    command.env("ASAN_OPTIONS", "detect_leaks=0").env("PHALANX_DRIVER", "poll");
    command.env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
    // With an explicit target the flags do not apply to build scripts. The standard library is the installed one:
    // errors in instrumented code are found without instrumenting it.
    command.args(["test", "--release", "--target", "x86_64-unknown-linux-gnu"]);
    command.args(["-p", "phalanx-core", "-p", "phalanx", "--test", "hostile"]);
    succeed(command, "AddressSanitizer reported an error, or a test failed")
}

fn valgrind(root: &Path) -> Result<(), Obstacle> {
    if Command::new("valgrind").arg("--version").stdout(Stdio::null()).status().is_err() {
        let reason = "valgrind is not installed; try `apt-get install valgrind`";
        return Err(Obstacle::Missing(reason.into()));
    }
    // With the flags and features of the other tests, so that nothing is compiled twice.
    let programs = artifacts::build(root, &["--workspace", "--test", "hostile"]);
    let programs = programs.map_err(Obstacle::Failed)?;
    if programs.len() != PROGRAMS {
        let reason = format!("cargo has built {} programs instead of {PROGRAMS}", programs.len());
        return Err(Obstacle::Failed(reason));
    }
    for program in programs {
        let mut command = Command::new("valgrind");
        command.args(["--quiet", "--error-exitcode=99", "--fair-sched=try"]);
        command.arg(format!("--suppressions={SUPPRESSIONS}")).arg(program.path);
        command.current_dir(root).env("PHALANX_DRIVER", "poll");
        succeed(command, "valgrind reported an error, or a test failed")?;
    }
    Ok(())
}

/// Ensures that a nightly toolchain with these components is installed.
fn nightly(components: &[&str]) -> Result<(), Obstacle> {
    let missing = |reason: &str| Err(Obstacle::Missing(reason.into()));
    let listed = rustup(&["component", "list", "--toolchain", "nightly", "--installed"]).output();
    match listed {
        Err(_) => return missing("a nightly toolchain is required, and rustup is not installed"),
        Ok(listed) if listed.status.success() => {
            let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
            if components.iter().all(|component_prefix| {
                listed.lines().any(|have| have.starts_with(component_prefix))
            }) {
                return Ok(());
            }
        }
        Ok(_) => {}
    }
    let mut install = rustup(&["toolchain", "install", "nightly", "--profile", "minimal"]);
    if !components.is_empty() {
        install.args(["-c", &components.join(",")]);
    }
    match install.status() {
        Ok(status) if status.success() => Ok(()),
        _ => missing("a nightly toolchain is required, and rustup could not install one"),
    }
}

fn rustup(arguments: &[&str]) -> Command {
    let mut command = Command::new("rustup");
    // Set by rustup for this process, and valid only for its own toolchain.
    for variable in ["RUSTUP_TOOLCHAIN", "CARGO", "RUSTC", "RUSTDOC"] {
        command.env_remove(variable);
    }
    command.args(arguments);
    command
}

/// Cargo of the nightly toolchain, with a separate target folder.
fn cargo_nightly(root: &Path, folder: &str) -> Command {
    let mut command = rustup(&["run", "nightly", "cargo"]);
    command.current_dir(root).env("CARGO_TARGET_DIR", target(root).join(folder));
    command
}

/// Appends flags to the ones already in the variable.
fn with_flags(command: &mut Command, variable: &str, flags: &str) {
    let before = std::env::var(variable).unwrap_or_default();
    command.env(variable, format!("{before} {flags}").trim_start());
}

fn succeed(mut command: Command, otherwise: &str) -> Result<(), Obstacle> {
    task::succeed(&mut command, otherwise).map_err(Obstacle::Failed)
}
