//! `touch`: the cache lines that a request touches.

mod report;
mod symbols;
mod trace;
mod visits;

use std::ffi::OsString;
use std::io::{BufReader, ErrorKind};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use clap::Args;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::error::Error;
use symbols::Symbols;
use visits::Visits;

/// The function that executes any operation of a Phalanx program.
const OPERATION: &str = "phalanx_core::processor::operation::vtable::poll";

/// Maximum number of events after a signal: those that wait in the pipe. A process that the program has forked may write
/// more.
const MAX_REST: u32 = 100_000;

/// Count the cache lines that a program touches in each stage.
///
/// The program runs under valgrind, about a hundred times slower. A visit of a stage lasts from the call of its function
/// until the return. Lines touched by a nested stage are attributed to that stage. A request lasts from one visit of the first
/// stage to the next.
#[derive(Args)]
pub(crate) struct Touch {
    /// A stage: NAME=FUNCTION; FUNCTION may be a prefix matching several functions (as printed by `nm -C`). The first
    /// stage starts requests.
    #[arg(long = "stage", value_name = "NAME=FUNCTION", value_parser = stage)]
    stages: Vec<(String, String)>,
    /// Warm-up requests, not counted.
    #[arg(long, default_value_t = 0, value_name = "NUMBER")]
    skip: u64,
    /// Terminate the program after this number of counted requests.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    requests: Option<u64>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// The program and its arguments.
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

fn stage(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, function)) if !name.is_empty() && !function.is_empty() => {
            Ok((name.to_owned(), function.to_owned()))
        }
        _ => Err("expected NAME=FUNCTION, as in parse=my_server::parse".to_owned()),
    }
}

impl Touch {
    pub(crate) fn run(&self) -> Result<(), Error> {
        let path = find(Path::new(&self.program[0]))?;
        let symbols = Symbols::load(&path)?;
        let mut stages = self.stages.clone();
        if stages.is_empty() {
            stages.push(("operations".to_owned(), OPERATION.to_owned()));
        }
        let patterns: Vec<&str> = stages.iter().map(|(_, function)| function.as_str()).collect();
        let entries = symbols.entries(&patterns).map_err(|what| Error::contents(&path, what))?;
        let mut visits = Visits::new(&symbols, entries, stages.len(), self.skip);
        let status = self.trace(&path, &mut visits)?;
        let names: Vec<&str> = stages.iter().map(|(name, _)| name.as_str()).collect();
        if visits.stages.iter().all(|sums| sums.visits == 0) {
            let ended = status.map(|status| format!(" before the program ended ({status})"));
            let what = format!(
                "no visit of a stage ended after the first {} requests{}; send more requests, or reduce `--skip`",
                self.skip,
                ended.unwrap_or_default()
            );
            return Err(Error::contents(&path, what));
        }
        let mut text = String::new();
        if self.json {
            text = format!("{:#}\n", report::json(&names, &visits));
        } else {
            report::table(&names, &visits, &mut text).expect("writing to a string");
        }
        crate::print(&text)
    }

    /// Runs the program under valgrind until it exits or has served enough requests. Returns its status if it has exited.
    fn trace(&self, path: &Path, visits: &mut Visits<'_>) -> Result<Option<ExitStatus>, Error> {
        let valgrind = Path::new("valgrind");
        let (reader, writer) = std::io::pipe().map_err(Error::read(valgrind))?;
        // Only valgrind inherits it: no other child is started.
        rustix::io::fcntl_setfd(&writer, rustix::io::FdFlags::empty())
            .map_err(|error| Error::read(valgrind)(error.into()))?;
        let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(Error::read(valgrind))?;
        let listening = signals.handle();
        // valgrind knows the program by the file that a link leads to.
        let file = path.canonicalize().map_err(Error::read(path))?;
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let child = Command::new(valgrind)
            .args(["--tool=lackey", "--trace-mem=yes", "--trace-symtab=yes"])
            .arg(format!("--trace-symtab-patt=*/{name}"))
            .arg(format!("--log-fd={}", writer.as_raw_fd()))
            .arg(path)
            .args(&self.program[1..])
            // The report alone goes to standard output.
            .stdout(std::io::stderr())
            .spawn()
            .map_err(|error| match error.kind() {
                ErrorKind::NotFound => {
                    Error::contents(valgrind, "not found in the PATH; install valgrind")
                }
                _ => Error::read(valgrind)(error),
            })?;
        drop(writer);
        let mut child = Ended(child);
        // A signal ends the program, which may be idle; the report follows.
        let interrupted = Arc::new(AtomicBool::new(false));
        let (is_interrupted, program) = (interrupted.clone(), Pid::from_child(&child.0));
        let listener = std::thread::spawn(move || {
            if signals.forever().next().is_some() {
                is_interrupted.store(true, Relaxed);
                // Fails if it has exited.
                let _ = kill_process(program, Signal::KILL);
            }
        });
        let last = self.requests.map(|requests| requests.saturating_add(self.skip));
        let mut rest = MAX_REST;
        let read = trace::read(BufReader::with_capacity(1 << 20, reader), |event| {
            visits.event(event);
            rest -= u32::from(interrupted.load(Relaxed));
            // The last counted request ends where the next starts.
            rest > 0 && last.is_none_or(|last| visits.started <= last)
        });
        // Before the child is waited for, so that its number has no other process.
        listening.close();
        listener.join().expect("no panic");
        read.map_err(Error::read(valgrind))?;
        if !interrupted.load(Relaxed) && last.is_none_or(|last| visits.started <= last) {
            return child.0.wait().map(Some).map_err(Error::read(valgrind));
        }
        Ok(None)
    }
}

/// A child that is killed if it has not exited.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // Fails if it has exited.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The path of a program, like the shell finds it.
fn find(program: &Path) -> Result<PathBuf, Error> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_plain = program.components().count() == 1 && !program.as_os_str().is_empty();
    let folders = std::env::split_paths(&path).filter(|_| is_plain);
    let found = folders.map(|folder| folder.join(program)).find(|path| path.is_file());
    found.map_or_else(|| std::path::absolute(program).map_err(Error::read(program)), Ok)
}
