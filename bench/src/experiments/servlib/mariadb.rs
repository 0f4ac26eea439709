//! MariaDB under the load of sysbench: processor time of the server per transaction. The slides measure MySQL with TPC-W.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use super::Row;
use super::{Arm, Setting};
use crate::error::Error;
use crate::measure::measure_setting;
use crate::system::cores::spawn;
use crate::system::{Process, ReservedPort, interrupted, process, run_time};

/// The title, the script of sysbench, and the transactions of a slice.
const SCENES: [(&str, &str, usize); 2] = [
    ("MariaDB point select, µs", "oltp_point_select", 20_000),
    ("MariaDB read-write, µs", "oltp_read_write", 1_000),
];
/// Connections, each with a thread of the server.
const CONNECTIONS: &str = "--threads=16";
/// Rows of the table, which fits in the server's memory.
const ROWS: &str = "--table-size=10000";
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// The installed programs.
struct Programs {
    install: PathBuf,
    server: PathBuf,
    sysbench: PathBuf,
}

/// Measures MariaDB if it and sysbench are installed.
pub(super) fn run(setting: &Setting, rows: &mut Vec<Row>) -> Result<(), Error> {
    let [install, server, sysbench] =
        ["mariadb-install-db", "mariadbd", "sysbench"].map(process::find);
    let (Some(install), Some(server), Some(sysbench)) = (install, server, sysbench) else {
        eprintln!("MariaDB or sysbench is not installed; apt-get install mariadb-server sysbench");
        return Ok(());
    };
    let programs = Programs { install, server, sysbench };
    let empty = setting.directory.join("mariadb");
    let mut install = Command::new(&programs.install);
    install.args(["--no-defaults", "--auth-root-authentication-method=normal"]).args(user());
    succeed("mariadb-install-db", install.arg(option("datadir", &empty)))?;
    let mut servers = Vec::new();
    for arm in Arm::ALL {
        servers.push(Running::start(setting, &programs, arm, &empty)?);
    }
    for (title, script, transactions) in SCENES {
        let count = setting.count(transactions, 20);
        let turn = |arm: usize, _| servers[arm].slice(setting, &programs, script, count);
        let turns = (Arm::ALL.len(), setting.rounds);
        measure_setting(title, turns, turn, |costs| rows.extend(Row::of(title, &costs)))?;
    }
    Ok(())
}

/// A server that runs in one way.
struct Running(Process);

impl Running {
    /// Starts the server with a copy of the empty database, and creates the table.
    fn start(
        setting: &Setting,
        programs: &Programs,
        arm: Arm,
        empty: &Path,
    ) -> Result<Self, Error> {
        let name = format!("mariadb-{}", arm.name().replace([' ', ',', '/'], "-"));
        let data = setting.directory.join(&name);
        succeed("cp", Command::new("cp").arg("-r").arg(empty).arg(&data))?;
        let port = ReservedPort::take()?;
        let mut command = arm.command(&setting.phalanx, setting.carriers(), &programs.server);
        command.args(["--no-defaults", "--bind-address=127.0.0.1"]).args(user());
        command.arg(format!("--port={}", port.number()));
        command.args([option("datadir", &data), option("socket", &data.join("socket"))]);
        // No password, no names of clients, no disk: the log of transactions is written once a second.
        command.args([
            "--skip-grant-tables",
            "--skip-name-resolve",
            "--innodb-flush-log-at-trx-commit=0",
        ]);
        let start = (&*name, command, Some(port));
        let cores = &setting.cores.server;
        let server = Process::start_within(
            START_TIMEOUT,
            start,
            cores,
            &setting.directory,
            process::listens,
        )?;
        let running = Self(server);
        succeed("sysbench", running.sysbench(programs, "oltp_point_select").arg("prepare"))?;
        Ok(running)
    }

    fn sysbench(&self, programs: &Programs, script: &str) -> Command {
        let mut command = Command::new(&programs.sysbench);
        command.args([script, "--db-driver=mysql", "--mysql-host=127.0.0.1", "--mysql-user=root"]);
        command.arg(format!("--mysql-port={}", self.0.address.port()));
        command.args(["--mysql-db=test", "--tables=1", ROWS]);
        command
    }

    /// Microseconds of the server's processor time per transaction.
    fn slice(
        &self,
        setting: &Setting,
        programs: &Programs,
        script: &str,
        count: usize,
    ) -> Result<f64, Error> {
        interrupted()?;
        let mut load = self.sysbench(programs, script);
        load.args([CONNECTIONS, "--time=0", &format!("--events={count}"), "run"]);
        let before = run_time(&self.0.family)?;
        let output = spawn(&setting.cores.load, quiet(&mut load))?.wait_with_output()?;
        check("sysbench", &output)?;
        Ok((run_time(&self.0.family)? - before) * 1e6 / count as f64)
    }
}

/// The option without which the server refuses to run as root.
fn user() -> Option<&'static str> {
    rustix::process::geteuid().is_root().then_some("--user=root")
}

fn option(name: &str, path: &Path) -> String {
    format!("--{name}={}", path.display())
}

fn quiet(command: &mut Command) -> &mut Command {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped())
}

fn succeed(name: &str, command: &mut Command) -> Result<(), Error> {
    check(name, &quiet(command).output()?)
}

fn check(name: &str, output: &Output) -> Result<(), Error> {
    if output.status.success() {
        return Ok(());
    }
    let said = [&output.stderr[..], &output.stdout[..]].concat();
    let said = String::from_utf8_lossy(&said);
    let last = said.trim().lines().last().unwrap_or_default();
    Err(Error::Process(format!("{name}: {}: {last}", output.status)))
}
