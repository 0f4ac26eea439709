//! Chores that run the web server and watch it: what an idle connection holds, what slow clients do to
//! the others, and whether anything is left after hours of everything at once.
//!
//! They run the real program, built in release mode, as a process of its own, and speak to it over the
//! loopback; what it holds they read in `/proc`.

pub(crate) mod idle;
pub(crate) mod server;
pub(crate) mod slow;
pub(crate) mod soak;

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

/// The value behind `--name`, if it is there.
fn option(arguments: &[String], name: &str) -> Result<Option<u64>, String> {
    let Some(at) = arguments.iter().position(|argument| argument == name) else { return Ok(None) };
    let value = arguments.get(at + 1).ok_or_else(|| format!("{name} wants a number"))?;
    let number = value.parse().map_err(|_| format!("{name} wants a number, and not `{value}`"))?;
    Ok(Some(number))
}

/// Builds the program, unless PHALANX_BINARY names one.
pub(crate) fn binary(root: &Path) -> io::Result<PathBuf> {
    if let Some(path) = std::env::var_os("PHALANX_BINARY") {
        return Ok(path.into());
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--release", "--quiet", "--package", "phalanx-cli"])
        .current_dir(root)
        // As it is shipped, also where CI builds everything else in less time.
        .env_remove("CARGO_PROFILE_RELEASE_LTO")
        .env_remove("CARGO_PROFILE_RELEASE_CODEGEN_UNITS")
        .status()?;
    if !status.success() {
        return Err(io::Error::other("the program cannot be built"));
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    Ok(target.join("release").join("phalanx"))
}

/// The directory of a run, with a site in it; removed when dropped.
pub(crate) struct Home(PathBuf);

impl Home {
    pub(crate) fn make(name: &str) -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("phalanx-{name}-{}", std::process::id()));
        std::fs::create_dir_all(path.join("root"))?;
        Ok(Self(path))
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.0.join("root")
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What a chore comes to.
fn finish(name: &str, result: Result<bool, String>) -> ExitCode {
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask {name}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The value at this share of a list, which is sorted by it.
fn quantile(times: &mut [Duration], share: f64) -> Duration {
    times.sort_unstable();
    let at = ((times.len() as f64 * share) as usize).min(times.len().saturating_sub(1));
    times.get(at).copied().unwrap_or_default()
}
