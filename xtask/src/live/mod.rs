//! Tasks that run the web server and observe it: memory of idle connections, the effect of slow clients on other
//! clients, and leaks after minutes of mixed load.
//!
//! They run the release build as a separate process, connect over the loopback, and read its resource usage from
//! `/proc`.

pub(crate) mod idle;
pub(crate) mod server;
pub(crate) mod slow;
pub(crate) mod soak;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::task::{Outcome, cargo, succeed, target};
use server::Server;

/// Builds `phalanx`, unless PHALANX_BINARY names one.
pub(crate) fn binary(root: &Path) -> io::Result<PathBuf> {
    match std::env::var_os("PHALANX_BINARY") {
        Some(path) => Ok(path.into()),
        None => build(root, "phalanx-cli", "phalanx"),
    }
}

/// Builds `phalanx-kernels`, unless PHALANX_KERNELS_BINARY names one.
pub(crate) fn kernels(root: &Path) -> io::Result<PathBuf> {
    match std::env::var_os("PHALANX_KERNELS_BINARY") {
        Some(path) => Ok(path.into()),
        None => build(root, "phalanx-kernels", "phalanx-kernels"),
    }
}

/// Builds a package and returns the path of its program.
fn build(root: &Path, package: &str, program: &str) -> io::Result<PathBuf> {
    let mut cargo = cargo(root);
    cargo.args(["build", "--release", "--quiet", "--package", package]);
    succeed(&mut cargo, &format!("{program} does not compile")).map_err(io::Error::other)?;
    Ok(target(root).join("release").join(program))
}

/// The directory of a run with a generated site; removed when dropped.
pub(crate) struct Home(PathBuf);

impl Home {
    pub(crate) fn create(name: &str) -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("phalanx-{name}-{}", std::process::id()));
        std::fs::create_dir_all(path.join("root"))?;
        Ok(Self(path))
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.0.join("root")
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Leaves the directory, and returns its path.
    pub(crate) fn keep(mut self) -> PathBuf {
        std::mem::take(&mut self.0)
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if self.0 != Path::new("") {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}

/// Measures a server that serves a small file, `/small`, with each driver. Returns whether the results of all drivers that
/// started are good. `arguments` are further arguments of `phalanx web`.
///
/// # Errors
/// If no driver was measured, or a measurement failed.
fn with_each_driver(
    (program, home): (&Path, &Home),
    arguments: &[&str],
    mut measure: impl FnMut(&str, &Server) -> Outcome,
) -> Outcome {
    std::fs::write(home.root().join("small"), vec![b'x'; 2048])?;
    let (mut measured, mut is_ok) = (0, true);
    for driver in ["poll", "uring"] {
        let arguments = [&["--driver", driver], arguments].concat();
        match Server::start(program, &home.root(), &arguments) {
            Ok(server) => {
                measured += 1;
                is_ok &= measure(driver, &server)?;
            }
            Err(error) => println!("{driver}: not measured: {error}"),
        }
    }
    outcome(measured, is_ok)
}

/// The outcome after `measured` measurements, all of which were good if `is_ok`.
fn outcome(measured: usize, is_ok: bool) -> Outcome {
    match measured {
        0 => Err("the server started with no driver, so nothing was measured".into()),
        _ => Ok(is_ok),
    }
}

/// The quantile `fraction` of `times`, which are sorted in place.
pub(crate) fn quantile(times: &mut [Duration], fraction: f64) -> Duration {
    times.sort_unstable();
    let at = ((times.len() as f64 * fraction) as usize).min(times.len().saturating_sub(1));
    times.get(at).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_without_a_measurement_is_an_error() {
        assert!(outcome(0, true).is_err());
        assert!(matches!((outcome(1, true), outcome(2, false)), (Ok(true), Ok(false))));
        let home = Home::create("no-driver").unwrap();
        let run_with =
            |program| with_each_driver((Path::new(program), &home), &[], |_, _| Ok(true));
        assert!(
            run_with("/no/such/program")
                .is_err_and(|reason| reason.to_string().contains("no driver"))
        );
    }
}
