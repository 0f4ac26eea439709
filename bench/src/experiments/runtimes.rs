//! `phalanx-bench runtimes`: the same small work on Phalanx, tokio, glommio and monoio.
//!
//! The tasks are in a separate program (`bench/peers/runtimes`), so that building Phalanx does not build all
//! runtimes. Each task of each runtime has its own process, and they take turns.

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;

use crate::arguments::number;
use crate::error::Error;
use crate::load::exchange::{Exchange, Query};
use crate::measure::{Partial, Rounds as _, Stretch, median, partial, record};
use crate::system::{
    Bound, Cores, Process, install_signal_handlers, interrupted, process, run_time,
};

const PROGRAM: &str = "phalanx-runtimes";
/// The runtimes; Phalanx is the first.
const RUNTIMES: [&str; 4] = ["phalanx", "tokio", "glommio", "monoio"];

/// Measure the same small tasks on Phalanx, tokio, glommio and monoio.
///
/// `child`: 64 parents spawn a child and await it, one after another, on one thread. `cross`: one thread calls
/// another and waits. `echo`: a single-threaded server echoes 64 bytes to each of 64 connections, whose client
/// has another core; the figure is the server's processor time per message.
///
/// Install the program with `cargo xtask peers`, or name it with --program.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Number of rounds
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = number(1..=1000))]
    pub(crate) rounds: usize,

    /// The program with the tasks [default: found in the search path]
    #[arg(long, value_name = "PATH")]
    pub(crate) program: Option<PathBuf>,

    /// One short round: only checks that it runs
    #[arg(long, conflicts_with = "rounds")]
    pub(crate) quick: bool,
}

record! {
    /// The report.
    pub(crate) struct Report, fn new(figures: &[Figures; 4], partial: Option<Partial>) where {
        let row = |(of, runtime)| Row::new(runtime, of, &figures[0]);
        let rows: Vec<Row> = figures.iter().zip(RUNTIMES).map(row).collect();
        let least = |of: fn(&Row) -> f64| rows[1..].iter().map(of).fold(f64::INFINITY, f64::min);
    } {
        /// Phalanx first.
        rows: Vec<Row> | "over: relative to Phalanx", 0;
        /// Spawning and awaiting a child: the best of the others over Phalanx.
        least_child_over: f64 => "a child: the best of the others over Phalanx", 2 = least(|row| row.child_over);
        /// Calling another thread: the best of the others over Phalanx.
        least_cross_over: f64 => "another thread", 2 = least(|row| row.cross_over);
        /// Echo: the best of the others over Phalanx.
        least_echo_over: f64 => "an echo", 2 = least(|row| row.echo_over);
        rounds: usize => "rounds", 0 = figures[0][0].len();
        partial: Option<Partial>;
    }
}

record! {
    /// One runtime.
    pub(crate) struct Row, fn new(runtime: &'static str, of: &Figures, ours: &Figures) where {
        let over = |work: usize| median(&of[work].over(&ours[work], |time| *time));
    } {
        runtime: &'static str => "runtime", 0;
        /// Nanoseconds per child.
        child_ns: f64 => "child ns", 0 = median(&of[0]);
        /// Relative to Phalanx.
        child_over: f64 => "over", 2 = over(0);
        /// Nanoseconds per call to another thread.
        cross_ns: f64 => "cross ns", 0 = median(&of[1]);
        /// Relative to Phalanx.
        cross_over: f64 => "over", 2 = over(1);
        /// Microseconds of the server's processor time per message.
        echo_us: f64 => "echo µs", 2 = median(&of[2]);
        /// Relative to Phalanx.
        echo_over: f64 => "over", 2 = over(2);
    }
}

/// Figures of one runtime, by task and round.
type Figures = [Vec<f64>; 3];

pub(crate) fn run(options: &Options) -> Result<Report, Error> {
    install_signal_handlers()?;
    let path = process::named(&options.program, PROGRAM)?;
    let cores = Cores::choose(&[], &[], Some(1))?;
    let (rounds, shorter) = if options.quick { (1, 50) } else { (options.rounds, 1) };
    let (children, questions) = (2_000_000 / shorter, 8_000 / shorter);
    let directory = tempfile::tempdir()?;
    let start = |name| Server::start(name, &path, cores.clone(), directory.path());
    let servers = RUNTIMES.map(start).into_iter().collect::<Result<Vec<_>, _>>()?;
    let (mut figures, partial) = partial::measure_each(&[()], rounds, |(), round| {
        eprintln!("round {round} of {rounds}");
        // On one thread, bound to any core.
        let child = |name| bound(&cores.server, || work(&path, "child", name, children));
        let children = each(RUNTIMES, child)?;
        let questions = each(RUNTIMES, |name| work(&path, "cross", name, questions))?;
        let echoes = each([0, 1, 2, 3], |n: usize| servers[n].measure(MESSAGES / shorter))?;
        Ok([children, questions, echoes])
    })?;
    Ok(Report::new(&by_runtime(&figures.remove(0)), partial))
}

/// Measures each of four.
fn each<T>(of: [T; 4], measure: impl FnMut(T) -> Result<f64, Error>) -> Result<Vec<f64>, Error> {
    of.into_iter().map(measure).collect()
}

/// Transposes rounds of tasks of runtimes.
fn by_runtime(rounds: &[[Vec<f64>; 3]]) -> [Figures; 4] {
    let of =
        |runtime: usize, task: usize| rounds.iter().map(|round| round[task][runtime]).collect();
    [0, 1, 2, 3].map(|runtime| [0, 1, 2].map(|task| of(runtime, task)))
}

fn bound<R>(cores: &[usize], f: impl FnOnce() -> Result<R, Error>) -> Result<R, Error> {
    let _bound = Bound::to(cores)?;
    f()
}

/// Runs a task of the program and parses the number that it prints.
fn work(path: &PathBuf, what: &str, name: &str, times: usize) -> Result<f64, Error> {
    interrupted()?;
    let stretch = Stretch::begin();
    let output = Command::new(path).args([what, name, &times.to_string()]).output()?;
    stretch.end().of(format_args!("{name}, {what}"), times);
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse().map_err(|_| {
        let said = String::from_utf8_lossy(&output.stderr);
        let reason = format!("{}: {}", output.status, said.trim());
        Error::server(format!("{PROGRAM} {what} {name}"), reason)
    })
}

const CONNECTIONS: usize = 64;
/// A message, which the server sends back.
const ECHO: Query = Query { request: &[7; 64], reply: &[7; 64] };
/// Messages per round.
const MESSAGES: usize = 60_000;

/// A running echo server.
struct Server {
    name: &'static str,
    cores: Cores,
    process: Process,
}

impl Server {
    fn start(
        name: &'static str,
        program: &Path,
        cores: Cores,
        directory: &Path,
    ) -> Result<Self, Error> {
        let mut command = Command::new(program);
        command.args(["echo", name]);
        let process =
            Process::start(name, command, None, &cores.server, directory, process::listens)?;
        Ok(Self { name, cores, process })
    }

    /// Microseconds of the server's processor time per message, of about this many messages.
    fn measure(&self, messages: usize) -> Result<f64, Error> {
        let failed = |error| match error {
            Error::Interrupted => error,
            error => Error::load(self.name, error),
        };
        let _bound = Bound::to(&self.cores.load)?;
        let address = self.process.address;
        let mut clients = Exchange::connect(address, None, ECHO, None, CONNECTIONS)
            .map_err(|error| failed(error.into()))?;
        clients.run(|answered| answered >= messages / 10).map_err(failed)?;
        let before = run_time(&self.process.family)?;
        let stretch = Stretch::begin_of(&self.process.family);
        let answered = clients.run(|answered| answered >= messages).map_err(failed)?;
        stretch.end().of(format_args!("{}, echo", self.name), answered);
        let after = run_time(&self.process.family)?;
        Ok((after - before) * 1e6 / answered as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_relative_to_phalanx() {
        let of = |child, cross, echo| [vec![child; 3], vec![cross; 3], vec![echo; 3]];
        let figures =
            [of(10.0, 1.0, 2.0), of(30.0, 2.0, 2.0), of(20.0, 4.0, 1.0), of(40.0, 3.0, 6.0)];
        let report = Report::new(&figures, None);
        assert_eq!(report.rows[0].child_over, 1.0);
        assert_eq!((report.least_child_over, report.least_cross_over), (2.0, 2.0));
        assert_eq!((report.least_echo_over, report.rounds), (0.5, 3));
        assert_eq!(report.rows[2].runtime, "glommio");
    }
}
