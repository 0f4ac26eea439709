//! Paths of the programs that benchmarks start: the measured `phalanx`, and this program with its own servers and
//! load.

use std::io;
use std::path::{Path, PathBuf};

const PHALANX: &str = "phalanx";

/// This program, which also contains the load generator, the threaded twin and the bare loop.
pub(crate) fn own() -> io::Result<PathBuf> {
    std::env::current_exe()
}

/// The `phalanx` to measure: `given`, or the one beside this program, or the one on the search path. If there is
/// none, the bare name, so that starting it reports that it is missing.
pub(crate) fn phalanx(given: Option<&Path>) -> PathBuf {
    given.map(Path::to_owned).or_else(|| beside(PHALANX)).unwrap_or_else(|| PHALANX.into())
}

/// A program that was built with this one. Cargo puts tests into a folder below the programs.
pub(crate) fn beside(name: &str) -> Option<PathBuf> {
    let own = own().ok()?;
    own.ancestors().skip(1).take(2).map(|folder| folder.join(name)).find(|path| path.is_file())
}
