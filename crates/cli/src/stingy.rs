//! `phalanx stingy`: executes the memory tools for servers, which are a separate program.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use clap::Args;
use phalanx::runtime::report;

/// The program with the tools.
const PROGRAM: &str = "phalanx-stingy";

/// Analyse the memory of a server and reduce its cache misses (runs phalanx-stingy)
///
/// The program phalanx-stingy must be in the folder of this program or in the PATH.
#[derive(Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Stingy {
    /// Arguments of phalanx-stingy; `--help` lists them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

impl Stingy {
    pub(crate) fn run(self) -> ExitCode {
        let current = std::env::current_exe().ok();
        let sibling =
            current.map(|current| current.with_file_name(PROGRAM)).filter(|path| path.is_file());
        let program = sibling.unwrap_or_else(|| PROGRAM.into());
        // Returns only if it fails.
        let error = Command::new(&program).args(self.arguments).exec();
        if error.kind() == ErrorKind::NotFound {
            report(format_args!(
                "{PROGRAM} is neither in the folder of this program nor in the PATH; \
                 install it with `cargo install --path tools/stingy`"
            ));
        } else {
            report(format_args!("cannot execute {}: {error}", program.display()));
        }
        ExitCode::FAILURE
    }
}
