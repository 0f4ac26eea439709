//! `phalanx threads`: N-to-M threads for unmodified programs.

mod check;
mod elf;
mod imports;
mod inherited;
mod launch;
mod program;
mod refusal;
mod report;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use launch::Settings;

use crate::stdout;

/// Run an unmodified program with N-to-M threads (experimental)
///
/// The threads of the program run on few kernel threads, the carriers: a thread that waits for a lock, a timer or a
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
    /// Print the report as a JSON object with all imports, including untouched ones.
    #[arg(long, requires = "check")]
    json: bool,
    /// Number of carriers [default: the number of processors that this process may use].
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=1024),
        conflicts_with = "check"
    )]
    carriers: Option<u32>,
    /// Order of runnable threads. A cohort consists of threads that wait at the same place in the program.
    #[arg(long, value_name = "ORDER", default_value = "cohort", conflicts_with = "check")]
    order: Order,
    /// Resume a thread for each part of a large transfer. By default, the polling carrier sends the parts.
    #[arg(long, conflicts_with = "check")]
    no_large_io: bool,
    /// Serve counters at /snapshot.json on this address, for `phalanx top`. Loopback only, since they reveal details of
    /// the load.
    #[arg(long, value_name = "ADDR:PORT", conflicts_with = "check")]
    admin: Option<SocketAddr>,
    /// Allow an admin address that other machines can reach.
    #[arg(long, requires = "admin")]
    admin_public: bool,
    /// The program and its arguments, after `--`.
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// The order of runnable threads.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Order {
    /// Threads that wait at the same place run one after another.
    Cohort,
    /// In order of arrival.
    Fifo,
}

impl Threads {
    pub(crate) fn run(self) -> ExitCode {
        if let Some(admin) = self.admin.filter(|admin| !admin.ip().is_loopback())
            && !self.admin_public
        {
            stdout::complain(format_args!(
                "phalanx threads: {admin} can be reached by other machines, and the admin pages have no password; use a \
                 loopback address, or set --admin-public"
            ));
            return ExitCode::from(2);
        }
        let Some(program) = self.check else {
            let processors =
                || std::thread::available_parallelism().map_or(1, |number| number.get() as u32);
            let settings = Settings {
                carriers: self.carriers.unwrap_or_else(processors),
                order: self.order,
                large_io: !self.no_large_io,
                admin: self.admin,
            };
            let reason = launch::launch(&self.command, &settings);
            stdout::complain(format_args!("phalanx threads: {reason}"));
            return ExitCode::FAILURE;
        };
        let checked = match check::check(&program) {
            Ok(checked) => checked,
            Err(error) => {
                stdout::complain(format_args!("phalanx threads: {error}"));
                return ExitCode::FAILURE;
            }
        };
        let text = if self.json { report::json(&checked) } else { report::text(&checked) };
        let printed = stdout::print(text);
        match checked.refusals.is_empty() {
            true => printed,
            false => ExitCode::FAILURE,
        }
    }
}
