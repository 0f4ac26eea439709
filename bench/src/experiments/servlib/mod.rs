//! `phalanx-bench servlib`: programs with threads, natively and under `phalanx threads`.
//!
//! The slides of ServLib (Chanda) compare threading libraries with Apache, by file size and by traces, and with MySQL; one
//! experiment turns off the optimization of large transfers. The text names no metric of the charts. This benchmark compares
//! processor time, and adds the costs of single calls. Read
//! `calls` (single functions), `servers`, `apache` and `mariadb`, then `report`.

mod apache;
mod arm;
mod calls;
mod load;
mod mariadb;
mod report;
mod servers;

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;

use self::arm::Setting;
use self::report::Report;
use crate::arguments::number;
use crate::error::Error;
use crate::measure::{Machine, Run};
use crate::runner::SetupOptions;
use crate::system::{Cores, install_signal_handlers, programs};

/// Measure programs with threads natively and with N-to-M threads.
///
/// Each program runs natively, under `phalanx threads`, with its threads in order of arrival (FIFO), and without large
/// I/O, in turn. Figures are the program's processor time, medians of the rounds; ratios are of the same round. Single
/// calls run on one core with one carrier, servers on all server cores with as many carriers. Requires a C compiler;
/// Apache, memcached, and MariaDB with sysbench are measured if they are installed.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Rounds of each program
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = number(1..=1000))]
    pub(crate) rounds: usize,

    /// Cores and program
    #[command(flatten)]
    pub(crate) setup: SetupOptions,

    /// One short round: only checks that it runs
    #[arg(long, conflicts_with = "rounds")]
    pub(crate) quick: bool,
}

pub(crate) fn run(options: &Options) -> Result<Run<Report>, Error> {
    install_signal_handlers()?;
    phalanx::runtime::raise_open_files();
    let cores = Cores::choose(&options.setup.server_cores, &options.setup.load_cores, Some(1))?;
    let directory = tempfile::Builder::new().prefix("phalanx-bench-").tempdir()?;
    // Apache's children are other users.
    std::fs::set_permissions(
        directory.path(),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )?;
    let setting = Setting {
        phalanx: programs::phalanx(options.setup.phalanx.as_deref()),
        programs: compile(directory.path())?,
        directory: directory.path().to_owned(),
        rounds: if options.quick { 1 } else { options.rounds },
        quick: options.quick,
        cores,
    };
    let machine = Machine::here(setting.carriers(), &setting.cores);
    let mut report = Report { rows: Vec::new(), interrupted: false };
    let rows = &mut report.rows;
    let measured = calls::run(&setting, rows)
        .and_then(|()| servers::run(&setting, rows))
        .and_then(|()| mariadb::run(&setting, rows));
    match measured {
        Err(Error::Interrupted) if !report.rows.is_empty() => report.interrupted = true,
        measured => measured?,
    }
    Ok(Run::new(report, machine, None, options.quick))
}

/// Compiles the measured programs.
fn compile(directory: &Path) -> Result<PathBuf, Error> {
    let (source, program) = (directory.join("programs.c"), directory.join("servlib"));
    std::fs::write(&source, include_str!("programs.c"))?;
    let mut command = Command::new("cc");
    command.args(["-O2", "-pthread", "-o"]).arg(&program).arg(&source);
    let failed = |why: String| {
        Error::Process(format!("cc: {why}; install a C compiler, such as the package gcc"))
    };
    let output = command.output().map_err(|error| failed(error.to_string()))?;
    match output.status.success() {
        true => Ok(program),
        false => Err(failed(String::from_utf8_lossy(&output.stderr).into_owned())),
    }
}
