//! `phalanx-bench servlib`: programs with threads, natively and under `phalanx threads`.
//!
//! The slides of ServLib (Chanda) compare threading libraries with Apache, by file size and by traces, and with MySQL; one
//! experiment turns off the optimization of large transfers. The text names no metric of the charts. This benchmark compares
//! processor time, and adds the costs of single calls. Read `servers`, `apache` and `mariadb`.

mod apache;
mod load;
mod mariadb;
mod servers;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;

use crate::arguments::number;
use crate::error::Error;
use crate::measure::{
    Machine, Quartiles, Rounds as _, Run, Spread, Stretch, measure_setting, record,
};
use crate::runner::SetupOptions;
use crate::system::cores::spawn;
use crate::system::{Cores, install_signal_handlers, interrupted, process};

record! {
    /// Processor time of programs with threads, natively and under `phalanx threads`.
    pub(crate) struct Report {
        /// One per program and arm.
        rows: Vec<Row> | "processor time of the program per repetition or request", 1;
        /// Whether it was interrupted after some rows.
        interrupted: bool;
    }
}

record! {
    /// A program in one arm; medians of the rounds.
    pub(crate) struct Row, fn new(program: &str, arm: Arm, own: &[f64], native: &[f64]) {
        /// The program, and the unit of the cost.
        program: String => "program", 0 = program.to_owned();
        /// The way in which it runs.
        arm: &'static str => "arm", 0 = arm.name();
        /// Processor time.
        cost: f64 => "cost", 2 = own.to_vec();
        /// Median of the rounds' ratios.
        over_native: f64 => "over native", 2 = own.over(native, |cost| *cost);
        rounds: usize => "rounds", 0 = own.len();
        spread: Spread = Quartiles;
    }
}

impl Row {
    /// The rows of a program, one for each arm with the costs of its rounds.
    fn of(program: &str, costs: &[Vec<f64>]) -> Vec<Self> {
        let row = |(arm, arm_costs): (_, &Vec<_>)| Self::new(program, arm, arm_costs, &costs[0]);
        Arm::ALL.into_iter().zip(costs).map(row).collect()
    }
}

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
        phalanx: process::phalanx(options.setup.phalanx.as_deref()),
        programs: compile(directory.path())?,
        directory: directory.path().to_owned(),
        rounds: if options.quick { 1 } else { options.rounds },
        quick: options.quick,
        cores,
    };
    let machine = Machine::here(setting.carriers(), &setting.cores);
    let mut report = Report { rows: Vec::new(), interrupted: false };
    let rows = &mut report.rows;
    let measured = calls(&setting, rows)
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
    let failed = |reason: String| {
        Error::Process(format!("cc: {reason}; install a C compiler, such as the package gcc"))
    };
    let output = command.output().map_err(|error| failed(error.to_string()))?;
    match output.status.success() {
        true => Ok(program),
        false => Err(failed(String::from_utf8_lossy(&output.stderr).into_owned())),
    }
}

/// A way to run a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arm {
    Native,
    Shim,
    Fifo,
    NoLargeIo,
}

impl Arm {
    const ALL: [Self; 4] = [Self::Native, Self::Shim, Self::Fifo, Self::NoLargeIo];

    fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Shim => "shim",
            Self::Fifo => "shim, FIFO",
            Self::NoLargeIo => "shim, no large I/O",
        }
    }

    /// The command of a program with arguments.
    fn command(self, phalanx: &Path, carriers: usize, program: &Path) -> Command {
        let options: &[&str] = match self {
            Self::Native => return Command::new(program),
            Self::Shim => &[],
            Self::Fifo => &["--order", "fifo"],
            Self::NoLargeIo => &["--no-large-io"],
        };
        let mut command = Command::new(phalanx);
        command.args(["threads", "--carriers", &carriers.to_string()]).args(options);
        command.arg("--").arg(program);
        command
    }
}

/// The environment of the arms.
struct Setting {
    /// The program `phalanx`.
    phalanx: PathBuf,
    /// The compiled programs of `programs.c`.
    programs: PathBuf,
    /// Where servers may write.
    directory: PathBuf,
    cores: crate::system::cores::Cores,
    rounds: usize,
    quick: bool,
}

impl Setting {
    /// As many carriers as the servers have cores.
    fn carriers(&self) -> usize {
        self.cores.server.len()
    }

    /// A number of repetitions, or few in a quick run.
    fn count(&self, full: usize, quick: usize) -> usize {
        if self.quick { quick } else { full }
    }
}

/// The title, the program, and its repetitions in full and quick runs.
const PROGRAMS: [(&str, &str, usize, usize); 3] = [
    ("hand-over by a condition, ns", "pingpong", 200_000, 2_000),
    ("mutex, ns", "mutex", 10_000_000, 10_000),
    ("create and join, ns", "create", 5_000, 20),
];

/// Costs of single functions of the C library, on one core.
fn calls(setting: &Setting, rows: &mut Vec<Row>) -> Result<(), Error> {
    for (title, program, full, quick) in PROGRAMS {
        let count = setting.count(full, quick);
        let turn = |arm: usize, _| once(setting, Arm::ALL[arm], program, count);
        let turns = (Arm::ALL.len(), setting.rounds);
        measure_setting(title, turns, turn, |costs| rows.extend(Row::of(title, &costs)))?;
    }
    Ok(())
}

/// Nanoseconds of processor time per repetition.
fn once(setting: &Setting, arm: Arm, program: &str, count: usize) -> Result<f64, Error> {
    interrupted()?;
    let mut command = arm.command(&setting.phalanx, 1, &setting.programs);
    command.args([program, &count.to_string()]).stdout(Stdio::piped()).stdin(Stdio::null());
    let stretch = Stretch::begin();
    let output = spawn(&setting.cores.server[..1], &mut command)?.wait_with_output()?;
    stretch.end().of(format_args!("{program}, {}", arm.name()), count);
    let text = String::from_utf8_lossy(&output.stdout);
    let failed = || Error::Process(format!("{program} ({}): {}", arm.name(), output.status));
    text.trim().parse().map_err(|_| failed())
}
