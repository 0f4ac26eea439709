//! `phalanx threads`: N-to-M threads for unmodified programs. The command checks programs; it does not run them yet.

mod check;
mod elf;
mod imports;
mod program;
mod refusal;
mod report;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

/// Check whether a program is suitable for N-to-M threads
///
/// N-to-M threads run the threads of an unmodified, dynamically linked program on few kernel threads. This version
/// only checks programs; it does not run them. It reports the treatment of each function that the program and its
/// libraries import. Libraries that the program loads later are not checked.
///
/// Exit codes: 0 if the program is suitable, 1 if it is refused or cannot be read, 2 for bad arguments.
#[derive(Args)]
pub(crate) struct Threads {
    /// The program to check: a path, or a name in $PATH. For a script its interpreter is checked.
    #[arg(long, value_name = "PROGRAM")]
    check: PathBuf,
    /// Print a JSON object with all imports, including those that are left as they are.
    #[arg(long)]
    json: bool,
}

impl Threads {
    pub(crate) fn run(self) -> ExitCode {
        let checked = match check::check(&self.check) {
            Ok(checked) => checked,
            Err(error) => {
                eprintln!("phalanx threads: {error}");
                return ExitCode::FAILURE;
            }
        };
        let text = if self.json { report::json(&checked) } else { report::plain(&checked) };
        // The reader may have closed the pipe: `phalanx threads --check redis-server | head`.
        let _ = std::io::Write::write_all(&mut std::io::stdout(), text.as_bytes());
        match checked.refusals.is_empty() {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        }
    }
}
