//! `phalanx threads`: N-to-M threads for unmodified programs.

mod check;
mod elf;
mod imports;
mod launch;
mod program;
mod refusal;
mod report;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

/// Run an unmodified program with N-to-M threads (experimental)
///
/// The threads of the program run on few kernel threads, the carriers: a thread that waits for a lock, a time or a
/// socket leaves its carrier to another one. The program must be dynamically linked with glibc.
///
/// With --check, the program does not run: the command reports the treatment of each function that the program and its
/// libraries import, except those of libraries that it loads later. The exit code is then 0 if the program is suitable,
/// 1 if it is refused or cannot be read.
#[derive(Args)]
pub(crate) struct Threads {
    /// Report whether a program is suitable: a path, or a name in $PATH. For a script its interpreter is checked.
    #[arg(
        long,
        value_name = "PROGRAM",
        required_unless_present = "command",
        conflicts_with = "command"
    )]
    check: Option<PathBuf>,
    /// Print the report as a JSON object with all imports, including those that are left as they are.
    #[arg(long, requires = "check")]
    json: bool,
    /// The number of carriers [default: the processors that this process may use].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    carriers: Option<u32>,
    /// The program and its arguments, after `--`.
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

impl Threads {
    pub(crate) fn run(self) -> ExitCode {
        let Some(program) = self.check else {
            let processors =
                || std::thread::available_parallelism().map_or(1, |number| number.get() as u32);
            let carriers = self.carriers.unwrap_or_else(processors);
            eprintln!("phalanx threads: {}", launch::launch(&self.command, carriers));
            return ExitCode::FAILURE;
        };
        let checked = match check::check(&program) {
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
